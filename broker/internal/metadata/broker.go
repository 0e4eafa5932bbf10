package metadata

import (
	"fmt"
	"maps"
	"slices"
)

// Broker is a broker's registration.
type Broker struct {
	ID          int32
	Epoch       int64  // offset of the registration in the log: a later one is higher
	Incarnation string // a uuid in Kafka's form: each start of the broker has its own
	Rack        string // "" is none
	Listeners   []BrokerListener
	MinLevel    int16 // lowest metadata.version that the broker can work at
	MaxLevel    int16 // and the highest
	Fenced      bool  // out of touch with the log: clients are not sent there
}

// BrokerListener is where clients reach a broker.
type BrokerListener struct {
	Name     string // EXTERNAL …
	Protocol string // security protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL
	Host     string
	Port     int32
}

// supports tells whether the broker works at a level of metadata.version. No level at all suits everybody.
func (b Broker) supports(level int16) bool {
	return level == 0 || b.MinLevel <= level && level <= b.MaxLevel
}

// says tells whether two registrations say the same of the broker, whatever became of them.
func (b Broker) says(o Broker) bool {
	return b.ID == o.ID && b.Incarnation == o.Incarnation && b.Rack == o.Rack && slices.Equal(b.Listeners, o.Listeners) &&
		b.MinLevel == o.MinLevel && b.MaxLevel == o.MaxLevel
}

// Brokers lists the registrations, fenced ones too, by id. Where nobody registers it is empty.
func (i *Image) Brokers() []Broker {
	all := make([]Broker, 0, len(i.brokers))
	for _, id := range slices.Sorted(maps.Keys(i.brokers)) {
		all = append(all, i.brokers[id])
	}
	return all
}

// Broker returns the registration of a broker, which may be fenced.
func (i *Image) Broker(id int32) (Broker, bool) {
	b, ok := i.brokers[id]
	return b, ok
}

// live is the registration of a broker that is not fenced.
func (i *Image) live(id int32) (Broker, bool) {
	b, ok := i.brokers[id]
	return b, ok && !b.Fenced
}

func (b *builder) checkRegister(r RegisterBroker) *RejectedError {
	old, ok := b.brokers[r.ID]
	if ok && !old.Fenced && old.Incarnation != r.Incarnation {
		return &RejectedError{Record: r, Detail: fmt.Sprintf("broker %d is %s", r.ID, old.Incarnation), Err: ErrDuplicateBroker}
	}
	if level := b.features[MetadataVersion]; !r.supports(level) {
		return rejectedLevel(r, level, r.Broker)
	}
	return nil
}

// checkLevel asks all brokers that are not fenced whether they can work at a level; the lowest id that cannot is named.
func (b *builder) checkLevel(r SetFeature) *RejectedError {
	if r.Name != MetadataVersion {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(b.brokers)) {
		if broker := b.brokers[id]; !broker.Fenced && !broker.supports(r.Level) {
			return rejectedLevel(r, r.Level, broker)
		}
	}
	return nil
}

func rejectedLevel(r Record, level int16, b Broker) *RejectedError {
	err := &LevelError{Feature: MetadataVersion, Level: level, Broker: b.ID, Min: b.MinLevel, Max: b.MaxLevel}
	return &RejectedError{Record: r, Detail: err.Error(), Err: err}
}

func (b *builder) putBroker(r Broker) { b.changeBroker(r.ID, &r) }

// changeBroker sets the registration of a broker; nil takes it away.
func (b *builder) changeBroker(id int32, next *Broker) {
	if !b.ownBrokers {
		b.brokers, b.ownBrokers = maps.Clone(b.brokers), true
	}
	if b.journal {
		old, ok := b.brokers[id]
		b.undo = append(b.undo, func() {
			if ok {
				b.brokers[id] = old
			} else {
				delete(b.brokers, id)
			}
		})
	}
	if next == nil {
		delete(b.brokers, id)
	} else {
		b.brokers[id] = *next
	}
}
