package broker

import (
	"crypto/tls"
	"io"
	"time"

	"github.com/brokerlab/brokerlab/broker/internal/sasl"
)

// Protocol is a security protocol by Kafka's name.
type Protocol string

// The security protocols.
const (
	Plaintext     Protocol = "PLAINTEXT"
	SSL           Protocol = "SSL"
	SASLPlaintext Protocol = "SASL_PLAINTEXT"
	SASLSSL       Protocol = "SASL_SSL"
)

// TLS tells whether the protocol is encrypted.
func (p Protocol) TLS() bool { return p == SSL || p == SASLSSL }

// SASL tells whether clients authenticate by SASL.
func (p Protocol) SASL() bool { return p == SASLPlaintext || p == SASLSSL }

// Config is a broker's whole configuration, read and validated by [LoadConfig].
type Config struct {
	NodeID                   int32
	ClusterID                string // "" = the broker chooses and keeps one
	Rack                     string
	Listeners                []ListenerConfig
	InterBrokerListener      string
	LogDirs                  []string // empty: nothing is kept
	NumIOThreads             int
	Backlog                  int
	MaxRequestBytes          int
	IdleTimeout              time.Duration // 0: never
	FailedAuthDelay          time.Duration
	SuperUsers               []string
	AutoCreateTopics         bool
	NumPartitions            int32
	DefaultReplicationFactor int16
	SyncWrites               bool // log.flush.interval.messages=1
	MetadataVersion          string
	MetricsListener          string
	KernelAccounting         string // auto, require, off, lab:<socket>
	APIsEnabled              bool
	ListClientConnectionsKey int16

	Properties map[string]string // every key as given (overrides applied)
	Ignored    []string          // keys of Kafka that have no use here
	Warnings   []string          // to be logged at the start
}

// ListenerConfig is one listener with its listener.name. overrides resolved.
type ListenerConfig struct {
	Name           string // upper case
	Protocol       Protocol
	Host           string // "" = all addresses
	Port           int    // 0 = chosen by the kernel
	AdvertisedHost string // "" = the machine's name
	AdvertisedPort int    // 0 = the bound port
	Threads        int
	MaxAuthFrame   int
	TLS            *tls.Config  // nil without TLS
	Principals     *sasl.Mapper // of certificates; nil without TLS
	Mechanisms     []string     // SASL listeners
	Plain          map[string]string
	MaxReauth      map[string]time.Duration // by mechanism; absent = none
}

// LoadConfig reads a server.properties file ("" = none) and key=value overrides.
func LoadConfig(path string, overrides []string, strict bool) (*Config, error) { return &Config{}, nil }

// TLSConfig loads the key stores of a listener anew, with the dynamic configs
// given on top of the file's.
func (c *Config) TLSConfig(listener string, dynamic map[string]string) (*tls.Config, error) {
	return nil, nil
}

// ConfigReference prints the manual of every property, as Markdown.
func ConfigReference(w io.Writer) error { return nil }
