// Command brokerlab builds a network lab, runs a Kafka broker in it, drives clients from many subnets and checks with
// eBPF, from the kernel, what the broker says about its connections. Its subcommands live in internal/command.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/brokerlab/brokerlab/cmd/brokerlab/internal/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command.Run(ctx, os.Args, command.Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr})
	stop()
	os.Exit(code)
}
