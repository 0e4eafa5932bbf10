// Package configpush is the suite that holds the broker to KIP-1324: clients tell once what they are configured with, over each
// of the four protocols, and nobody else notices.
//
// Clients are fleets, which push whatever they are told to, and franz-go's with package push. What a spec believes is what its own
// connections saw, what the broker keeps (DescribeClientConfigs) and what it counted. Each file is one promise; importing the
// package registers its specs, and `brokerlab run configpush` and `go test` run them. Policies that fail, panic or sleep are the policy
// fault, which is there for that.
package configpush
