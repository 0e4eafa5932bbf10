package metadata

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// MetadataVersion is the feature that pins the rules of this file.
const MetadataVersion = "metadata.version"

// writerMark is the last entry of one node that was applied or refused.
type writerMark struct {
	incarnation int64
	sequence    uint64
}

// builder turns an image into the next. What is applied here must depend on nothing but the record and the image so
// far: every broker of a cluster applies the same log. Owned by one goroutine.
type builder struct {
	offset    int64
	clusterID string
	scram     *edit[string, userScram]
	configs   *edit[Resource, map[string]string]
	quotas    *edit[string, Quota]
	features  map[string]int16
	epoch     int64
	writers   map[int32]writerMark
	brokers   map[int32]Broker
	acls      *acl.Index // the store's own, changed in place
	rules     digest     // of what is in it
	snapshot  snapshotMark
	size      int64
	pending   []ruleChange         // what the entry in progress does to it
	indexed   map[acl.Binding]bool // pending by rule: the first counted of them
	counted   int

	ownConfigs map[Resource]bool // inner maps that no image knows
	ownQuotas  map[string]bool
	ownBrokers bool // no image knows the map of brokers

	quotasChanged bool     // maybe to what they were, if a change was refused
	undo          []func() // what takes back the change that is being applied
	journal       bool     // whether undo is kept: not for a single record, which is refused before it changes anything
}

func newBuilder(from *Image, acls *acl.Index) *builder {
	return &builder{
		acls:       acls,
		indexed:    map[acl.Binding]bool{},
		offset:     from.offset,
		clusterID:  from.clusterID,
		scram:      newEdit(from.scram),
		configs:    newEdit(from.configs),
		quotas:     newEdit(from.quotas),
		features:   maps.Clone(from.features),
		epoch:      from.epoch,
		writers:    maps.Clone(from.writers),
		brokers:    from.brokers,
		rules:      from.rules,
		snapshot:   from.snapshot,
		size:       from.size,
		ownConfigs: map[Resource]bool{},
		ownQuotas:  map[string]bool{},
	}
}

// image returns the image as it is now. The builder may go on: nothing it does later shows in that image.
func (b *builder) image() *Image {
	clear(b.ownConfigs)
	clear(b.ownQuotas)
	b.ownBrokers = false
	i := &Image{
		offset:    b.offset,
		clusterID: b.clusterID,
		scram:     b.scram.freeze(),
		configs:   b.configs.freeze(),
		quotas:    b.quotas.freeze(),
		features:  maps.Clone(b.features),
		epoch:     b.epoch,
		writers:   maps.Clone(b.writers),
		brokers:   b.brokers,
		rules:     b.rules,
		snapshot:  b.snapshot,
		size:      b.size,
	}
	i.hash = sync.OnceValue(i.digest)
	return i
}

// apply applies one entry whole or refuses it whole. repeated tells that the entry had been seen before: then its
// verdict was given before too, and nothing happens.
func (b *builder) apply(e *entry) (repeated bool, rejected *RejectedError) {
	mark := b.writers[e.node]
	if e.incarnation < mark.incarnation || e.incarnation == mark.incarnation && e.sequence <= mark.sequence {
		return true, nil
	}
	b.writers[e.node] = writerMark{incarnation: e.incarnation, sequence: e.sequence}
	b.undo, b.journal = b.undo[:0], len(e.records) > 1
	for i, r := range e.records {
		err := b.check(r)
		if err == nil {
			b.put(r)
			continue
		}
		for _, undo := range slices.Backward(b.undo) {
			undo()
		}
		b.forgetACLs()
		err.Index = i
		return false, err
	}
	clear(b.undo)
	b.flushACLs()
	return false, nil
}

// ruleChange adds a rule or takes it away.
type ruleChange struct {
	rule acl.Binding
	add  bool
}

// flushACLs makes an entry's rules part of the index, once it is known that the entry holds.
func (b *builder) flushACLs() {
	var scratch writer
	for _, c := range b.pending {
		before := b.acls.Len() // only the builder changes it
		if c.add {
			b.acls.Add(c.rule)
		} else {
			b.acls.Remove(c.rule)
		}
		switch after := b.acls.Len(); {
		case after > before:
			b.rules.add(digestOf(&scratch, AddACL{Binding: c.rule}))
		case after < before:
			b.rules.remove(digestOf(&scratch, AddACL{Binding: c.rule}))
		}
	}
	b.forgetACLs()
}

func (b *builder) forgetACLs() {
	b.pending, b.counted = b.pending[:0], 0
	clear(b.indexed)
}

// hasACL tells whether a rule is there, after what the entry in progress has done so far.
func (b *builder) hasACL(rule acl.Binding) bool {
	for _, c := range b.pending[b.counted:] {
		b.indexed[c.rule] = c.add
	}
	b.counted = len(b.pending)
	if present, ok := b.indexed[rule]; ok {
		return present
	}
	return b.acls.Has(rule)
}

// check gives the verdict on one record.
func (b *builder) check(r Record) *RejectedError {
	if err := r.validate(); err != nil {
		return &RejectedError{Record: r, Detail: err.Error(), Err: ErrInvalid}
	}
	switch r := r.(type) {
	case SetScram:
		if b.features[MetadataVersion] < metadataVersionScram {
			return &RejectedError{Record: r, Detail: "SCRAM needs metadata.version 3.5-IV2", Err: ErrUnsupported}
		}
	case RemoveScram:
		u, _ := b.scram.get(r.User)
		if u[scramIndex(r.Mechanism)] == nil {
			return &RejectedError{Record: r, Detail: fmt.Sprintf("user %q has no %s credential", r.User, r.Mechanism), Err: ErrNotFound}
		}
	case AddACL:
		return b.checkACL(r)
	case RemoveACL:
		if !b.hasACL(r.Binding) {
			return &RejectedError{Record: r, Detail: r.String(), Err: ErrNotFound}
		}
	case SetFeature:
		return b.checkLevel(r)
	case RegisterBroker:
		return b.checkRegister(r)
	case FenceBroker:
		if old, ok := b.brokers[r.ID]; !ok || old.Fenced || old.Epoch != r.Epoch {
			return &RejectedError{Record: r, Detail: fmt.Sprintf("live broker %d of epoch %d", r.ID, r.Epoch), Err: ErrNotFound}
		}
	case UnregisterBroker:
		if _, ok := b.brokers[r.ID]; !ok {
			return &RejectedError{Record: r, Detail: fmt.Sprintf("broker %d", r.ID), Err: ErrNotFound}
		}
	case snapshotTaken:
		return b.checkSnapshot(r)
	case setCluster:
		if b.clusterID != "" {
			return &RejectedError{Record: r, Detail: "the log belongs to cluster " + b.clusterID, Err: ErrInvalid}
		}
	}
	return nil
}

// checkACL applies the rules of the level that is finalized where the log has come to: a range never races past the change
// of metadata.version that allows it.
func (b *builder) checkACL(r AddACL) *RejectedError {
	rule := r.Binding
	if r.Ungated && acl.IsCIDR(rule.Host) {
		rule.Host = acl.AnyHost // the rest is as it always was
	}
	refusal := acl.Validate(rule, b.features[MetadataVersion])
	if refusal == nil {
		return nil
	}
	rejected := &RejectedError{Record: r, Detail: refusal.Message, Err: ErrInvalid}
	if refusal.Unsupported() {
		rejected.Err = ErrUnsupported
	}
	return rejected
}

// put applies a record that check let pass.
func (b *builder) put(r Record) {
	switch r := r.(type) {
	case SetScram:
		b.putScram(r.User, r.Mechanism, &r.ScramCredential)
	case RemoveScram:
		b.putScram(r.User, r.Mechanism, nil)
	case SetConfig:
		b.putConfig(r)
	case SetQuota:
		b.putQuota(r)
	case SetFeature:
		b.putFeature(r)
	case AddACL:
		b.pending = append(b.pending, ruleChange{r.Binding, true})
	case RemoveACL:
		b.pending = append(b.pending, ruleChange{r.Binding, false})
	case RegisterBroker:
		r.Epoch, r.Fenced = b.offset, false
		b.putBroker(r.Broker)
	case FenceBroker:
		broker := b.brokers[r.ID]
		broker.Fenced = true
		b.putBroker(broker)
	case UnregisterBroker:
		b.changeBroker(r.ID, nil)
	case snapshotTaken:
		b.putSnapshot(r)
	case setCluster:
		b.putCluster(r)
	}
}

func (b *builder) putScram(user, mechanism string, c *ScramCredential) {
	old, _ := b.scram.get(user)
	next := old
	next[scramIndex(mechanism)] = c
	if b.journal {
		b.undo = append(b.undo, func() { setOrRemove(b.scram, user, old, old != userScram{}) })
	}
	setOrRemove(b.scram, user, next, next != userScram{})
}

func (b *builder) putConfig(r SetConfig) {
	configs, _ := b.configs.get(r.Resource)
	if !b.ownConfigs[r.Resource] {
		configs = cloneOrMake(configs)
	}
	publish := func() {
		setOrRemove(b.configs, r.Resource, configs, len(configs) > 0)
		b.ownConfigs[r.Resource] = len(configs) > 0
	}
	if b.journal {
		restore := restorer(configs, r.Name)
		b.undo = append(b.undo, func() { restore(); publish() })
	}
	if r.Value == nil {
		delete(configs, r.Name)
	} else {
		configs[r.Name] = *r.Value
	}
	publish()
}

func (b *builder) putQuota(r SetQuota) {
	b.quotasChanged = true
	key := r.Entity.Identity()
	q, ok := b.quotas.get(key)
	if !ok {
		q.Entity = r.Entity
	}
	if !b.ownQuotas[key] {
		q.Values = cloneOrMake(q.Values)
	}
	publish := func() {
		setOrRemove(b.quotas, key, q, len(q.Values) > 0)
		b.ownQuotas[key] = len(q.Values) > 0
	}
	if b.journal {
		restore := restorer(q.Values, r.Name)
		b.undo = append(b.undo, func() { restore(); publish() })
	}
	if r.Value == nil {
		delete(q.Values, r.Name)
	} else {
		q.Values[r.Name] = *r.Value
	}
	publish()
}

func (b *builder) putFeature(r SetFeature) {
	if b.journal {
		epoch, restore := b.epoch, restorer(b.features, r.Name)
		b.undo = append(b.undo, func() { b.epoch = epoch; restore() })
	}
	b.epoch++
	if r.Level == 0 {
		delete(b.features, r.Name)
	} else {
		b.features[r.Name] = r.Level
	}
}

func (b *builder) putCluster(r setCluster) {
	if b.journal {
		old := b.clusterID
		b.undo = append(b.undo, func() { b.clusterID = old })
	}
	b.clusterID = r.ID
}

func setOrRemove[K comparable, V any](e *edit[K, V], k K, v V, keep bool) {
	if keep {
		e.set(k, v)
	} else {
		e.remove(k)
	}
}

// restorer returns what makes m[k] what it is now.
func restorer[V any](m map[string]V, k string) func() {
	old, ok := m[k]
	return func() {
		if ok {
			m[k] = old
		} else {
			delete(m, k)
		}
	}
}

func cloneOrMake[V any](m map[string]V) map[string]V {
	if m == nil {
		return make(map[string]V)
	}
	return maps.Clone(m)
}
