//go:build !linux

package command

import (
	"errors"
	"runtime"

	"github.com/spf13/cobra"
)

// systemCommands stand for the subcommands that need Linux, and say so.
func systemCommands() []func(Env) *cobra.Command {
	var all []func(Env) *cobra.Command
	for _, c := range [][2]string{
		{"broker", "Run a Kafka broker"},
		{"lab", "Build network labs: brokers, and client subnets in IPv4 and IPv6"},
		{"check", "Ask whether a lab or cluster decides about access as a lab file expects"},
		{"run", "Run suites of promises against brokers in a lab"},
		{"fleet", "Drive thousands of clients from several machines"},
		{"kernel", "What the kernel itself counts of connections"},
		{"doctor", "Try what brokerlab needs of this machine"},
	} {
		all = append(all, func(Env) *cobra.Command { return needsLinux(c[0], c[1]) })
	}
	return all
}

// needsLinux is a command that cannot run here. It takes any arguments, so that every use of it gets the same answer.
func needsLinux(name, short string) *cobra.Command {
	return &cobra.Command{
		Use:                name,
		Short:              short + " (needs Linux)",
		Long:               linuxOnly(name),
		DisableFlagParsing: true,
		RunE:               func(*cobra.Command, []string) error { return &ExitError{Code: 2, Err: errors.New(linuxOnly(name))} },
	}
}

func linuxOnly(name string) string {
	return "brokerlab " + name + " needs Linux: it is made of namespaces, epoll and eBPF, which " + runtime.GOOS + ` does not have.
The Vagrantfile of the source tree is a Linux machine with all that it needs:

  git clone https://github.com/brokerlab/brokerlab && cd brokerlab
  vagrant up && vagrant ssh -c 'cd /vagrant && make demo'`
}
