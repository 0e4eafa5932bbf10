package admin

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agnivade/levenshtein"
	"github.com/magiconair/properties"
	"github.com/twmb/franz-go/pkg/kgo"
	kgosasl "github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/brokerlab/brokerlab/broker/internal/keystore"
	"github.com/brokerlab/brokerlab/broker/internal/sasl"
)

// ClientConfig is a Kafka client.properties file as a kgo client understands it.
type ClientConfig struct {
	Options        []kgo.Opt     // security, client id and time-outs; no seed brokers and no [Versions]
	Bootstrap      []string      // bootstrap.servers, when the file has it
	RequestTimeout time.Duration // request.timeout.ms: of one request; 30 s when the file does not have it
	CallTimeout    time.Duration // default.api.timeout.ms: of a whole call; 60 s when the file does not have it
	Warnings       []string      // what the file says in vain, one text each
	Security       Security      // what of Options is about security, for clients of another kind

	SASL kgosasl.Mechanism // the same, as kgo has it; nil for protocols without SASL
}

// Security is how a client authenticates and encrypts.
type Security struct {
	Protocol  string      // one of Kafka's four
	TLS       *tls.Config // nil for protocols without TLS; not to be changed
	Mechanism string      // of SASL: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; "" for protocols without SASL
	Username  string
	Password  string
}

// LoadClientConfig reads a client.properties file: security.protocol, ssl.*, sasl.mechanism and sasl.jaas.config (PLAIN
// and SCRAM), client.id and the common time-outs. A file that is wrong is one error that joins all its problems, each
// a [*PropertyError] with the key it is about. Keys that mean nothing here are warnings.
func LoadClientConfig(path string) (*ClientConfig, error) {
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := loader.LoadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read client properties: %w", err)
	}
	c, err := NewClientConfig(p.Map())
	if err != nil {
		return nil, fmt.Errorf("client properties %s:\n%w", path, err)
	}
	return c, nil
}

// ClientOptions is [LoadClientConfig] for callers that need the options only.
func ClientOptions(path string) ([]kgo.Opt, error) {
	c, err := LoadClientConfig(path)
	if err != nil {
		return nil, err
	}
	return c.Options, nil
}

// NewClientConfig is [LoadClientConfig] for properties that are not in a file.
func NewClientConfig(props map[string]string) (*ClientConfig, error) {
	r := reader{props: props, read: map[string]bool{}}
	c := &ClientConfig{Bootstrap: r.list("bootstrap.servers", nil)}
	if id := r.text("client.id", ""); id != "" {
		c.Options = append(c.Options, kgo.ClientID(id))
	}
	c.RequestTimeout = r.millis("request.timeout.ms", 30*time.Second)
	c.CallTimeout = r.millis("default.api.timeout.ms", time.Minute)
	// Beneath kgo's own bounds there is no option.
	c.Options = append(c.Options, kgo.RequestTimeoutOverhead(min(max(c.RequestTimeout, 100*time.Millisecond), 15*time.Minute)))
	if d := r.millis("socket.connection.setup.timeout.ms", 10*time.Second); d > 0 {
		c.Options = append(c.Options, kgo.DialTimeout(d))
	}

	protocol := strings.ToUpper(r.text("security.protocol", "PLAINTEXT"))
	known := []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}
	if !slices.Contains(known, protocol) {
		r.problem("security.protocol", fmt.Sprintf("%q is none of %s", protocol, strings.Join(known, ", ")))
	}
	tlsConfig := r.tls(strings.HasSuffix(protocol, "SSL"), c)
	if tlsConfig != nil {
		c.Options = append(c.Options, kgo.DialTLSConfig(tlsConfig))
	}
	c.Security = Security{Protocol: protocol, TLS: tlsConfig}
	if mechanism := r.sasl(strings.HasPrefix(protocol, "SASL_"), &c.Security); mechanism != nil {
		c.Options = append(c.Options, kgo.SASL(mechanism))
		c.SASL = mechanism
	}
	c.Warnings = append(c.Warnings, r.unread()...)
	if len(r.problems) > 0 {
		return nil, errors.Join(r.problems...)
	}
	return c, nil
}

// reader takes values out of properties, and remembers which it has taken and what is wrong with them.
type reader struct {
	props    map[string]string
	read     map[string]bool
	problems []error
}

func (r *reader) problem(key, text string) {
	r.problems = append(r.problems, &PropertyError{Key: key, Err: errors.New(text)})
}

// PropertyError is one problem of client properties.
type PropertyError struct {
	Key string // the property that it is about
	Err error
}

func (e *PropertyError) Error() string { return e.Key + ": " + e.Err.Error() }

func (e *PropertyError) Unwrap() error { return e.Err }

func (r *reader) text(key, standard string) string {
	r.read[key] = true
	if v, ok := r.props[key]; ok {
		return strings.TrimSpace(v)
	}
	return standard
}

func (r *reader) list(key string, standard []string) []string {
	v := r.text(key, "")
	if v == "" {
		return standard
	}
	var all []string
	for part := range strings.SplitSeq(v, ",") {
		if part = strings.TrimSpace(part); part != "" {
			all = append(all, part)
		}
	}
	return all
}

func (r *reader) millis(key string, standard time.Duration) time.Duration {
	v := r.text(key, "")
	if v == "" {
		return standard
	}
	n, err := strconv.ParseInt(v, 10, 64)
	switch {
	case err != nil:
		r.problem(key, fmt.Sprintf("%q is not a number of milliseconds", v))
	case n < 0 || n > math.MaxInt32:
		r.problem(key, fmt.Sprintf("%d is not between 0 and %d milliseconds", n, math.MaxInt32))
	default:
		return time.Duration(n) * time.Millisecond
	}
	return standard
}

// tls reads the ssl.* keys; they are read without TLS too, so that they are not warned of, but then nothing is loaded.
func (r *reader) tls(wanted bool, c *ClientConfig) *tls.Config {
	o := keystore.Options{
		Identity: keystore.Store{
			Type:        r.text("ssl.keystore.type", ""),
			Location:    r.text("ssl.keystore.location", ""),
			Password:    r.text("ssl.keystore.password", ""),
			KeyPassword: r.text("ssl.key.password", ""),
			Key:         r.text("ssl.keystore.key", ""),
			Chain:       r.text("ssl.keystore.certificate.chain", ""),
		},
		Trust: keystore.Store{
			Type:         r.text("ssl.truststore.type", ""),
			Location:     r.text("ssl.truststore.location", ""),
			Password:     r.text("ssl.truststore.password", ""),
			Certificates: r.text("ssl.truststore.certificates", ""),
		},
		EnabledProtocols: r.list("ssl.enabled.protocols", nil),
		CipherSuites:     r.list("ssl.cipher.suites", nil),
		Endpoint:         r.text("ssl.endpoint.identification.algorithm", "https"),
	}
	r.text("ssl.protocol", "") // only chooses a Java class
	if !wanted {
		return nil
	}
	config, warnings, err := keystore.ClientConfig(o)
	if err != nil {
		r.storeProblems(err)
		return nil
	}
	c.Warnings = append(c.Warnings, warnings...)
	return config
}

// storeProblems notes what is wrong with stores, each with its property.
func (r *reader) storeProblems(err error) {
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	for _, e := range all {
		known, ok := errors.AsType[*keystore.Error](e)
		switch {
		case !ok:
			r.problem("ssl", e.Error())
		case known.Location != "":
			r.problem(known.Property, known.Location+": "+known.Err.Error())
		default:
			r.problem(known.Property, known.Err.Error())
		}
	}
}

// sasl reads the sasl.* keys.
func (r *reader) sasl(wanted bool, s *Security) kgosasl.Mechanism {
	mechanism := r.text("sasl.mechanism", "GSSAPI")
	jaas := r.text("sasl.jaas.config", "")
	if !wanted {
		return nil
	}
	class := sasl.ScramLoginModule
	switch mechanism {
	case "PLAIN":
		class = sasl.PlainLoginModule
	case "SCRAM-SHA-256", "SCRAM-SHA-512":
	default:
		r.problem("sasl.mechanism", mechanism+" is not supported: use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
		return nil
	}
	if jaas == "" {
		r.problem("sasl.jaas.config", "must be set, with a "+class)
		return nil
	}
	modules, err := sasl.JAAS(jaas)
	if err != nil {
		r.problem("sasl.jaas.config", err.Error())
		return nil
	}
	if len(modules) != 1 {
		r.problem("sasl.jaas.config", fmt.Sprintf("has %d login modules, and a client needs one", len(modules)))
		return nil
	}
	m := modules[0]
	if m.Class != class {
		r.problem("sasl.jaas.config", fmt.Sprintf("has a %s, and %s needs a %s", m.Class, mechanism, class))
		return nil
	}
	user, pass := m.Options["username"], m.Options["password"]
	if user == "" {
		r.problem("sasl.jaas.config", "has no username")
		return nil
	}
	s.Mechanism, s.Username, s.Password = mechanism, user, pass
	token := m.Options["tokenauth"] == "true"
	switch mechanism {
	case "PLAIN":
		return plain.Auth{User: user, Pass: pass}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: pass, IsToken: token}.AsSha256Mechanism()
	default:
		return scram.Auth{User: user, Pass: pass, IsToken: token}.AsSha512Mechanism()
	}
}

// harmless lists keys of Kafka's clients that may stand in a file that is shared with other tools.
func harmless() []string {
	return []string{
		"acks", "auto.offset.reset", "batch.size", "buffer.memory", "client.dns.lookup", "compression.type",
		"connections.max.idle.ms", "enable.auto.commit", "enable.idempotence",
		"enable.metrics.push", "fetch.max.wait.ms", "group.id", "key.deserializer", "key.serializer", "linger.ms",
		"max.poll.records", "metadata.max.age.ms", "reconnect.backoff.max.ms", "reconnect.backoff.ms", "retries",
		"retry.backoff.max.ms", "retry.backoff.ms", "value.deserializer", "value.serializer",
	}
}

// unread returns a warning for each key that nobody has read.
func (r *reader) unread() []string {
	const near = 2 // letters between a key and what may have been meant
	known := slices.Sorted(maps.Keys(r.read))
	var all []string
	for _, key := range slices.Sorted(maps.Keys(r.props)) {
		if r.read[key] || slices.Contains(harmless(), key) {
			continue
		}
		text := key + " means nothing here"
		if i := slices.IndexFunc(known, func(k string) bool { return levenshtein.ComputeDistance(key, k) <= near }); i >= 0 {
			text += "; did you mean " + known[i] + "?"
		}
		all = append(all, text)
	}
	return all
}
