package push

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/broker/configpush"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// list is one of the built-in lists.
type list string

const (
	everyone list = "all"
	producer list = "producer"
	consumer list = "consumer"
	admin    list = "admin" // clients that are neither producers nor consumers
	nobody   list = "-"     // only where config.push.allowed.keys has it
)

// option is a configuration that Kafka has a name for.
type option struct {
	name string // Kafka's
	typ  int8   // as in ConfigDef of Kafka's own client
	of   list
	// from is kgo's function, or several that decide together.
	from []any
	// normal is the value of a client whose user has not set it; "" when Kafka has no word for that one.
	normal string
	// value is the client's, and false where Kafka's would be null or has no word for it.
	value func(cl *kgo.Client, c *Config) (string, bool)
}

// options is the one table of what franz-go's clients push. Of two rows of a name the first one counts that applies.
//
// What is not in it has no option in kgo, or is a function there: the backoffs, the partitioner, the socket's buffers.
func options() []option {
	const (
		boolean = protocol.ConfigTypeBoolean
		text    = protocol.ConfigTypeString
		integer = protocol.ConfigTypeInt
		long    = protocol.ConfigTypeLong
	)
	of := func(fs ...any) []any { return fs }
	return []option{
		{"client.id", text, everyone, of(kgo.ClientID), "kgo", maybe(kgo.ClientID)},
		{"client.rack", text, everyone, of(kgo.Rack), "", plain(kgo.Rack)},
		{"connections.max.idle.ms", long, everyone, of(kgo.ConnIdleTimeout), "30000", millis(kgo.ConnIdleTimeout)},
		{"metadata.max.age.ms", long, everyone, of(kgo.MetadataMaxAge), "300000", millis(kgo.MetadataMaxAge)},
		{"request.timeout.ms", integer, everyone, of(kgo.RequestTimeoutOverhead), "10000", millis(kgo.RequestTimeoutOverhead)},
		{"socket.connection.setup.timeout.ms", long, everyone, of(kgo.DialTimeout), "10000", millis(kgo.DialTimeout)},
		{"enable.metrics.push", boolean, everyone, of(kgo.DisableClientMetrics), "true", not(kgo.DisableClientMetrics)},

		{"acks", text, producer, of(kgo.RequiredAcks), "all", acks},
		{"batch.size", integer, producer, of(kgo.ProducerBatchMaxBytes), "1000012", number(kgo.ProducerBatchMaxBytes)},
		{"buffer.memory", long, producer, of(kgo.MaxBufferedBytes), "", positive(number(kgo.MaxBufferedBytes))},
		{"compression.type", text, producer, of(kgo.ProducerBatchCompression), "snappy", compression},
		{"delivery.timeout.ms", integer, producer, of(kgo.RecordDeliveryTimeout), "", positive(millis(kgo.RecordDeliveryTimeout))},
		{"enable.idempotence", boolean, producer, of(kgo.DisableIdempotentWrite), "true", not(kgo.DisableIdempotentWrite)},
		{"linger.ms", long, producer, of(kgo.ProducerLinger), "10", millis(kgo.ProducerLinger)},
		{
			"max.in.flight.requests.per.connection", integer, producer,
			of(kgo.MaxProduceRequestsInflightPerBroker, kgo.DisableIdempotentWrite), "5", inFlight,
		},
		{"max.request.size", integer, producer, of(kgo.BrokerMaxWriteBytes), "104857600", number(kgo.BrokerMaxWriteBytes)},
		{"retries", integer, producer, of(kgo.RecordRetries), strconv.Itoa(math.MaxInt32), clamped(number(kgo.RecordRetries))},
		{"transaction.timeout.ms", integer, producer, of(kgo.TransactionTimeout), "40000", millis(kgo.TransactionTimeout)},

		{"allow.auto.create.topics", boolean, consumer, of(kgo.AllowAutoTopicCreation), "false", plain(kgo.AllowAutoTopicCreation)},
		{"auto.commit.interval.ms", integer, consumer, of(kgo.AutoCommitInterval), "5000", millis(kgo.AutoCommitInterval)},
		{"auto.offset.reset", text, consumer, of(kgo.ConsumeResetOffset), "", offsetReset},
		{"check.crcs", boolean, consumer, of(kgo.DisableFetchCRCValidation), "true", not(kgo.DisableFetchCRCValidation)},
		{"enable.auto.commit", boolean, consumer, of(kgo.DisableAutoCommit), "true", inGroup(not(kgo.DisableAutoCommit))},
		{"fetch.max.bytes", integer, consumer, of(kgo.FetchMaxBytes), "52428800", number(kgo.FetchMaxBytes)},
		{"fetch.max.wait.ms", integer, consumer, of(kgo.FetchMaxWait), "5000", millis(kgo.FetchMaxWait)},
		{"fetch.min.bytes", integer, consumer, of(kgo.FetchMinBytes), "1", number(kgo.FetchMinBytes)},
		{"group.id", text, consumer, of(kgo.ConsumerGroup, kgo.ShareGroup), "", group},
		{"group.instance.id", text, consumer, of(kgo.InstanceID), "", maybe(kgo.InstanceID)},
		{"group.protocol", text, consumer, of(kgo.ServerSideBalancer), "classic", inGroup(groupProtocol)},
		{"heartbeat.interval.ms", integer, consumer, of(kgo.HeartbeatInterval), "3000", inGroup(millis(kgo.HeartbeatInterval))},
		{"isolation.level", text, consumer, of(kgo.FetchIsolationLevel), "read_uncommitted", isolation},
		{"max.partition.fetch.bytes", integer, consumer, of(kgo.FetchMaxPartitionBytes), "1048576", number(kgo.FetchMaxPartitionBytes)},
		{"max.poll.interval.ms", integer, consumer, of(kgo.RebalanceTimeout), "60000", inGroup(millis(kgo.RebalanceTimeout))},
		{"session.timeout.ms", integer, consumer, of(kgo.SessionTimeout), "45000", inGroup(millis(kgo.SessionTimeout))},

		{"default.api.timeout.ms", integer, admin, of(kgo.RetryTimeout), "30000", millis(kgo.RetryTimeout)},
		{"retries", integer, admin, of(kgo.RequestRetries), "20", clamped(number(kgo.RequestRetries))},

		{"partition.assignment.strategy", protocol.ConfigTypeList, nobody, of(kgo.Balancers), "cooperative-sticky", inGroup(balancers)},
		{"transactional.id", text, nobody, of(kgo.TransactionalID), "", maybe(kgo.TransactionalID)},
		{EnableKey, boolean, nobody, nil, "true", func(_ *kgo.Client, c *Config) (string, bool) { return strconv.FormatBool(!c.Disable), true }},
		{AllowedKeysKey, protocol.ConfigTypeList, nobody, nil, "", func(_ *kgo.Client, c *Config) (string, bool) {
			return strings.Join(c.AllowedKeys, ","), c.AllowedKeys != nil
		}},
	}
}

// lists are the built-in lists of what the client is. A kgo client can be all at once; it is a producer if something of a
// producer's is set, and a consumer if it consumes topics, partitions or a group.
func lists(cl *kgo.Client, all []option) []list {
	is := []list{everyone}
	if produces(cl, all) {
		is = append(is, producer)
	}
	topics, _ := cl.OptValue(kgo.ConsumeTopics).([]string)
	partitions, _ := cl.OptValue(kgo.ConsumePartitions).(map[string]map[int32]kgo.Offset)
	if _, grouped := group(cl, nil); grouped || len(topics) > 0 || len(partitions) > 0 {
		is = append(is, consumer)
	}
	if len(is) == 1 {
		is = append(is, admin)
	}
	return is
}

func produces(cl *kgo.Client, all []option) bool {
	if cl.OptValue(kgo.DefaultProduceTopic) != "" || cl.OptValues(kgo.TransactionalID)[1] == true {
		return true
	}
	for i := range all {
		if o := &all[i]; o.of == producer {
			if value, ok := o.value(cl, nil); ok && value != o.normal {
				return true
			}
		}
	}
	return false
}

// collect is what the client pushes, in the order of the table or of the allowed keys, and the keys that are withheld.
func collect(cl *kgo.Client, c *Config) (entries []configpush.Entry, withheld []string) {
	all := options()
	is := lists(cl, all)
	seen := map[string]bool{}
	take := func(key string, o *option) {
		if seen[key] {
			return
		}
		seen[key] = true
		typ := protocol.ConfigTypeUnknown
		if o != nil {
			typ = o.typ
		}
		if configpush.Sensitive(key, typ) {
			withheld = append(withheld, key)
			return
		}
		if o == nil {
			return // franz-go has nothing of the kind
		}
		value, ok := o.value(cl, c)
		switch {
		case !ok:
		case configpush.SensitiveValue(value):
			withheld = append(withheld, key)
		default:
			entries = append(entries, configpush.Entry{Key: key, Value: value, Type: typ, Default: value == o.normal})
		}
	}
	if c.AllowedKeys != nil {
		for _, key := range c.AllowedKeys {
			take(key, find(all, key, is))
		}
		return entries, withheld
	}
	for i := range all {
		if o := &all[i]; slices.Contains(is, o.of) {
			take(o.name, o)
		}
	}
	return entries, withheld
}

// find is the row of a name, one of what the client is if there is such a row.
func find(all []option, key string, is []list) *option {
	var found *option
	for i := range all {
		o := &all[i]
		if o.name != key {
			continue
		}
		if slices.Contains(is, o.of) {
			return o
		}
		if found == nil {
			found = o
		}
	}
	return found
}

type valueOf = func(*kgo.Client, *Config) (string, bool)

// plain is an option that is a string or a bool.
func plain(opt any) valueOf {
	return func(cl *kgo.Client, _ *Config) (string, bool) {
		switch v := cl.OptValue(opt).(type) {
		case string:
			return v, true
		case bool:
			return strconv.FormatBool(v), true
		}
		return "", false
	}
}

// maybe is a string that may be unset.
func maybe(opt any) valueOf {
	return func(cl *kgo.Client, _ *Config) (string, bool) {
		v := cl.OptValues(opt)
		return v[0].(string), v[1] == true //nolint:forcetypeassert // kgo says so
	}
}

func not(opt any) valueOf {
	return func(cl *kgo.Client, _ *Config) (string, bool) {
		v, ok := cl.OptValue(opt).(bool)
		return strconv.FormatBool(!v), ok
	}
}

// millis is a time in milliseconds, rounded down.
func millis(opt any) valueOf {
	return func(cl *kgo.Client, _ *Config) (string, bool) {
		v, ok := cl.OptValue(opt).(time.Duration)
		return strconv.FormatInt(v.Milliseconds(), 10), ok
	}
}

func number(opt any) valueOf {
	return func(cl *kgo.Client, _ *Config) (string, bool) {
		v := reflect.ValueOf(cl.OptValue(opt))
		if !v.IsValid() || !v.CanInt() {
			return "", false
		}
		return strconv.FormatInt(v.Int(), 10), true
	}
}

// clamped is at most what Kafka's INT holds: kgo's "unlimited" is more.
func clamped(value valueOf) valueOf {
	return func(cl *kgo.Client, c *Config) (string, bool) {
		text, ok := value(cl, c)
		n, err := strconv.ParseInt(text, 10, 64)
		return strconv.FormatInt(min(n, math.MaxInt32), 10), ok && err == nil
	}
}

// positive is null for 0, with which kgo says that there is no bound.
func positive(value valueOf) valueOf {
	return func(cl *kgo.Client, c *Config) (string, bool) {
		text, ok := value(cl, c)
		return text, ok && text != "0"
	}
}

// inGroup is null outside of a group.
func inGroup(value valueOf) valueOf {
	return func(cl *kgo.Client, c *Config) (string, bool) {
		if _, ok := group(cl, c); !ok {
			return "", false
		}
		return value(cl, c)
	}
}

func group(cl *kgo.Client, _ *Config) (string, bool) {
	for _, opt := range []any{kgo.ConsumerGroup, kgo.ShareGroup} {
		if id, _ := cl.OptValue(opt).(string); id != "" {
			return id, true
		}
	}
	return "", false
}

func groupProtocol(cl *kgo.Client, _ *Config) (string, bool) {
	if cl.OptValue(kgo.ShareGroup) != "" {
		return "", false // share consumers have no such configuration
	}
	if cl.OptValue(kgo.ServerSideBalancer) == true {
		return "consumer", true
	}
	return "classic", true
}

func balancers(cl *kgo.Client, _ *Config) (string, bool) {
	all, ok := cl.OptValue(kgo.Balancers).([]kgo.GroupBalancer)
	var names []string
	for _, b := range all {
		names = append(names, b.ProtocolName())
	}
	return strings.Join(names, ","), ok
}

func acks(cl *kgo.Client, _ *Config) (string, bool) {
	switch cl.OptValue(kgo.RequiredAcks) {
	case kgo.AllISRAcks():
		return "all", true
	case kgo.LeaderAck():
		return "1", true
	case kgo.NoAck():
		return "0", true
	}
	return "", false
}

// compression is the codec that kgo prefers; it falls back to the next ones only for brokers that do not know it.
func compression(cl *kgo.Client, _ *Config) (string, bool) {
	codecs, _ := cl.OptValue(kgo.ProducerBatchCompression).([]kgo.CompressionCodec)
	if len(codecs) == 0 {
		return "none", true
	}
	for _, known := range []struct {
		codec kgo.CompressionCodec
		name  string
	}{
		{kgo.NoCompression(), "none"},
		{kgo.GzipCompression(), "gzip"},
		{kgo.SnappyCompression(), "snappy"},
		{kgo.Lz4Compression(), "lz4"},
		{kgo.ZstdCompression(), "zstd"},
	} {
		if codecs[0].WithLevel(0) == known.codec.WithLevel(0) {
			return known.name, true
		}
	}
	return "", false
}

// inFlight is what kgo does with one connection: five requests where writes are idempotent, as Kafka's producer.
func inFlight(cl *kgo.Client, c *Config) (string, bool) {
	if cl.OptValue(kgo.DisableIdempotentWrite) == true {
		return number(kgo.MaxProduceRequestsInflightPerBroker)(cl, c)
	}
	return "5", true
}

func isolation(cl *kgo.Client, _ *Config) (string, bool) {
	switch cl.OptValue(kgo.FetchIsolationLevel) {
	case int8(0):
		return "read_uncommitted", true
	case int8(1):
		return "read_committed", true
	}
	return "", false
}

// offsetReset has no word for what kgo does by default, which is to go back a minute.
func offsetReset(cl *kgo.Client, _ *Config) (string, bool) {
	switch cl.OptValue(kgo.ConsumeResetOffset) {
	case kgo.NewOffset().AtStart():
		return "earliest", true
	case kgo.NewOffset().AtEnd():
		return "latest", true
	case kgo.NoResetOffset(), kgo.NoResetOffset().AtStart():
		return "none", true
	}
	return "", false
}
