//go:build !linux

package command

import "github.com/spf13/cobra"

// limitsOfSystem are the commands below limits that need Linux.
func limitsOfSystem() []func(Env) *cobra.Command { return nil }
