//go:build linux

package command

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/netlab"
	"github.com/brokerlab/brokerlab/netlab/topology"
)

func newLab(env Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "lab",
		Short: "Build network labs: brokers, and client subnets in IPv4 and IPv6",
		Long: `Build network labs from lab files: brokers in network namespaces of their own, and client subnets in which every
address can be a source. A lab changes nothing in the machine's own network. It stays up until lab down, which leaves
nothing, whatever was killed before. Labs need root.

The format of lab files is described in docs/guide-lab.md, and by the JSON schema docs/lab.schema.json.`,
		Example: `  sudo brokerlab lab up examples/quickstart.yaml
  sudo brokerlab lab exec quickstart office -- kcat -L -b broker1:9092
  sudo brokerlab lab down quickstart`,
	}
	for _, add := range []func(Env) *cobra.Command{newLabInit, newLabUp, newLabDown, newLabList, newLabInspect, newLabGraph, newLabLogs, newLabExec, newLabCut, newLabHeal, newLabValidate, newLabOwner} {
		c.AddCommand(add(env))
	}
	for _, op := range nodeOperations() {
		c.AddCommand(newNodeOperation(env, op))
	}
	return c
}

// labName is the name of the lab that arg means: a lab file's, or arg itself.
func labName(arg string) (string, error) {
	if !isFile(arg) {
		return arg, nil
	}
	lab, err := topology.Load(arg)
	if err != nil {
		return "", err
	}
	return lab.Name, nil
}

// isFile tells a lab file from a lab's name, which has neither dots nor slashes.
func isFile(arg string) bool {
	if strings.ContainsAny(arg, "./") {
		return true
	}
	info, err := os.Stat(arg)
	return err == nil && info.Mode().IsRegular()
}

// openLab opens the lab that arg means.
func openLab(arg string) (*netlab.Lab, error) {
	name, err := labName(arg)
	if err != nil {
		return nil, err
	}
	lab, err := netlab.Open(name, netlab.Options{})
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, upLabs())
	}
	return lab, nil
}

// upLabs says what labs there are, for an error about one that is not.
func upLabs() string {
	names, err := netlab.List(netlab.Options{})
	if err != nil || len(names) == 0 {
		return " (no lab is up)"
	}
	return " (there are: " + strings.Join(names, ", ") + ")"
}
