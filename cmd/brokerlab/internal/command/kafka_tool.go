package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// addKafkaBootstrap gives c the flags by which Kafka's tools find a cluster; whether one is there is the tool's own check.
// Flags that are wrong are refused with the texts of joptsimple, Kafka's parser.
func addKafkaBootstrap(c *cobra.Command, o *bootstrapOptions, env Env) {
	f := c.Flags()
	f.StringVar(&o.servers, "bootstrap-server", "", "`host:port` of one or more brokers, separated by commas; IPv6 in brackets")
	f.StringVar(&o.controllers, "bootstrap-controller", "", "`host:port` of controllers, instead of brokers")
	f.StringVar(&o.config, "command-config", "", "a client.properties `file`: how to authenticate and encrypt")
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return toolError(env, joptText(err)) })
}

// toolError says text on standard error, without a word around it, as Kafka's tools do, and ends with status 1.
func toolError(env Env, text string) error {
	_, err := fmt.Fprintln(env.Stderr, text)
	return &ExitError{Code: 1, Err: err}
}

// joptText is how joptsimple says what is wrong with a flag.
func joptText(err error) string {
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "unknown flag: --"); ok {
		return name + " is not a recognized option"
	}
	if name, ok := strings.CutPrefix(text, "flag needs an argument: --"); ok {
		return "Option " + name + " requires an argument"
	}
	return text
}

// optionClash is what Kafka's tools say of two flags that exclude each other.
func optionClash(one, other string) error {
	return fmt.Errorf("Option \"[%s]\" can't be used with option \"[%s]\"", one, other) //nolint:staticcheck // ST1005: Kafka's text
}

// javaExceptionError is an error of the cluster as Kafka's tools name it.
type javaExceptionError struct {
	class string // such as org.apache.kafka.common.errors.InvalidRequestException
	text  string
}

func (e *javaExceptionError) Error() string { return e.class + ": " + e.text }
