package command

import "github.com/spf13/cobra"

// systemCommands are the subcommands that need Linux.
func systemCommands() []func(Env) *cobra.Command {
	return []func(Env) *cobra.Command{
		newBroker, newEngine,
		newLab,
		newCheck,
		newRun,
		newBench,
		newKernel,
		newDoctor,
		newDocs,
		newFleet, newFleetWorker,
	}
}
