//go:build !linux

package command

// labSubnets are none: only Linux has labs.
func labSubnets(string) []labSubnet { return nil }
