package metadata

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"iter"
	"slices"
)

// digest is a sum over things that have no order: adding the same ones in any order gives the same, and what is taken
// away again leaves no trace.
type digest [sha256.Size / 8]uint64

func (d *digest) add(o digest) {
	for i := range d {
		d[i] += o[i]
	}
}

func (d *digest) remove(o digest) {
	for i := range d {
		d[i] -= o[i]
	}
}

// digestOf is the digest of one record. scratch is memory to work with.
func digestOf(scratch *writer, r Record) digest {
	scratch.b = append(scratch.b[:0], 0) // room for the type
	scratch.b[0] = byte(appendRecord(scratch, r))
	sum := sha256.Sum256(scratch.b)
	var d digest
	for i := range d {
		d[i] = binary.BigEndian.Uint64(sum[8*i:])
	}
	return d
}

// Hash is the same for images that say the same, whatever led to them: ACLs, SCRAM users, configs, quotas, features,
// registrations and the cluster's id. It is hexadecimal, worked out when first asked for: with very many users that takes
// a while.
func (i *Image) Hash() string { return i.hash() }

func (i *Image) digest() string {
	sum := i.rules
	var scratch writer
	for r := range i.records() {
		sum.add(digestOf(&scratch, r))
	}
	var b []byte
	for _, part := range sum {
		b = binary.BigEndian.AppendUint64(b, part)
	}
	return hex.EncodeToString(b)
}

// records goes over all that the image says, except for ACLs: as records that say the same to an empty image when they are
// put there unchecked.
func (i *Image) records() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for _, some := range []iter.Seq[Record]{i.clusterRecords(), i.scramRecords(), i.configRecords(), i.quotaRecords()} {
			for r := range some {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// clusterRecords are those of which there are few.
func (i *Image) clusterRecords() iter.Seq[Record] {
	var all []Record
	if i.clusterID != "" {
		all = append(all, setCluster{ID: i.clusterID})
	}
	for name, level := range i.features {
		all = append(all, SetFeature{Name: name, Level: level})
	}
	for _, b := range i.brokers {
		all = append(all, RegisterBroker{Broker: b})
	}
	return slices.Values(all)
}

func (i *Image) scramRecords() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for user, credentials := range i.scram.all() {
			for _, c := range credentials {
				if c != nil && !yield(SetScram{User: user, ScramCredential: *c}) {
					return
				}
			}
		}
	}
}

func (i *Image) configRecords() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for resource, configs := range i.configs.all() {
			for name, value := range configs {
				if !yield(SetConfig{Resource: resource, Name: name, Value: &value}) {
					return
				}
			}
		}
	}
}

func (i *Image) quotaRecords() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for _, q := range i.quotas.all() {
			entity := q.Entity.sorted()
			for name, value := range q.Values {
				if !yield(SetQuota{Entity: entity, Name: name, Value: &value}) {
					return
				}
			}
		}
	}
}
