package metadata

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// An entry is the value of one Kafka record, and one change:
//
//	entry  = format(0) node incarnation sequence count record…
//	record = type version length body
//
// All of them are unsigned varints except node and incarnation, which are signed (zigzag) ones; body is length bytes.
// In bodies, text and bytes are a length and that many bytes; a value that may be absent has a byte before it, 0 or 1;
// a float is its IEEE bits, big endian. Bodies and entries end where their last field ends: bytes beyond are an error,
// and so is a type or a version that the table does not have.
type entry struct {
	node        int32
	incarnation int64
	sequence    uint64
	records     []Record
}

const entryFormat = 0

// The types of records. A number is never used again for something else.
const (
	typeSetCluster  = 1
	typeSetFeature  = 2
	typeSetScram    = 3
	typeRemoveScram = 4
	typeSetConfig   = 5
	typeSetQuota    = 6
	typeAddACL      = 7
	typeRemoveACL   = 8

	typeRegisterBroker   = 9
	typeFenceBroker      = 10
	typeUnregisterBroker = 11
	typeSnapshotTaken    = 12
)

// errMalformed is an entry that no store has written.
var errMalformed = errors.New("malformed metadata entry")

// longestHead is the size of a head whose numbers are as long as they can be.
const longestHead = 1 + 3*binary.MaxVarintLen64

// appendHead appends what comes before the number of records.
func (e *entry) appendHead(dst []byte) []byte {
	dst = append(dst, entryFormat)
	dst = binary.AppendVarint(dst, int64(e.node))
	dst = binary.AppendVarint(dst, e.incarnation)
	return binary.AppendUvarint(dst, e.sequence)
}

// appendRecords appends the number of records and the records.
func appendRecords(dst []byte, records []Record) []byte {
	w := writer{b: binary.AppendUvarint(dst, uint64(len(records)))}
	var body writer
	for _, r := range records {
		appendOne(&w, &body, r)
	}
	return w.b
}

// appendOne appends a record with its type, version and length. body is memory to work with.
func appendOne(w, body *writer, r Record) {
	body.b = body.b[:0]
	kind := appendRecord(body, r)
	w.uvarint(uint64(kind))
	w.uvarint(0) // version
	w.bytes(body.b)
}

// leastRecord is the size of the shortest record: type, version and length. It bounds what a claimed count can allocate.
const leastRecord = 3

// decodeEntry reads what appendHead and appendRecords wrote. What it returns points into no part of b. A record of an unknown type or
// version is [ErrUnknownRecord].
func decodeEntry(b []byte) (*entry, error) {
	r := reader{b: b}
	if format := r.byte(); !r.bad && format != entryFormat {
		return nil, fmt.Errorf("%w: entry format %d", ErrUnknownRecord, format)
	}
	e := &entry{node: r.int32(), incarnation: r.varint(), sequence: r.uvarint()}
	if r.bad {
		return nil, errMalformed
	}
	var err error
	e.records, err = decodeRecords(r.b)
	return e, err
}

// decodeRecords reads what appendRecords wrote.
func decodeRecords(b []byte) ([]Record, error) {
	r := reader{b: b}
	n := r.uvarint()
	if r.bad || n > uint64(len(r.b)/leastRecord) {
		return nil, errMalformed
	}
	records := make([]Record, 0, n)
	for range n {
		kind, version := r.uvarint(), r.uvarint()
		body := reader{b: r.span(r.uvarint())}
		if r.bad {
			return nil, errMalformed
		}
		if version != 0 {
			return nil, fmt.Errorf("%w: type %d, version %d", ErrUnknownRecord, kind, version)
		}
		rec := readRecord(&body, kind)
		if rec == nil {
			return nil, fmt.Errorf("%w: type %d", ErrUnknownRecord, kind)
		}
		if body.bad || len(body.b) > 0 {
			return nil, fmt.Errorf("%w: body of type %d", errMalformed, kind)
		}
		records = append(records, rec)
	}
	if len(r.b) > 0 {
		return nil, errMalformed
	}
	return records, nil
}

// appendRecord appends the body of r and returns its type.
func appendRecord(w *writer, r Record) int {
	switch r := r.(type) {
	case setCluster:
		w.string(r.ID)
		return typeSetCluster
	case SetFeature:
		w.string(r.Name)
		w.varint(int64(r.Level))
		return typeSetFeature
	case SetScram:
		w.string(r.User)
		w.string(r.Mechanism)
		w.bytes(r.Salt)
		w.bytes(r.StoredKey)
		w.bytes(r.ServerKey)
		w.varint(int64(r.Iterations))
		return typeSetScram
	case RemoveScram:
		w.string(r.User)
		w.string(r.Mechanism)
		return typeRemoveScram
	case SetConfig:
		w.b = append(w.b, byte(r.Resource.Type))
		w.string(r.Resource.Name)
		w.string(r.Name)
		w.nullableString(r.Value)
		return typeSetConfig
	case SetQuota:
		w.uvarint(uint64(len(r.Entity)))
		for _, p := range r.Entity {
			w.string(string(p.Type))
			w.nullableString(p.Name)
		}
		w.string(r.Name)
		w.nullableFloat(r.Value)
		return typeSetQuota
	case AddACL:
		w.binding(r.Binding)
		w.present(r.Ungated)
		return typeAddACL
	case RemoveACL:
		w.binding(r.Binding)
		return typeRemoveACL
	case RegisterBroker:
		w.broker(r.Broker)
		return typeRegisterBroker
	case FenceBroker:
		w.varint(int64(r.ID))
		w.varint(r.Epoch)
		return typeFenceBroker
	case UnregisterBroker:
		w.varint(int64(r.ID))
		return typeUnregisterBroker
	case snapshotTaken:
		w.varint(r.Offset)
		w.varint(r.First)
		w.varint(r.Bytes)
		return typeSnapshotTaken
	}
	return 0 // Record cannot be implemented elsewhere, and a test encodes each type
}

// readRecord reads the body of a record of type kind; nil when there is no such type.
func readRecord(r *reader, kind uint64) Record {
	switch kind {
	case typeSetCluster:
		return setCluster{ID: r.string()}
	case typeSetFeature:
		return SetFeature{Name: r.string(), Level: r.int16()}
	case typeSetScram:
		return SetScram{User: r.string(), ScramCredential: r.credential()}
	case typeRemoveScram:
		return RemoveScram{User: r.string(), Mechanism: r.mechanism()}
	case typeSetConfig:
		rec := SetConfig{Resource: Resource{Type: ResourceType(r.byte()), Name: r.string()}}
		rec.Name, rec.Value = r.string(), r.nullableString()
		return rec
	case typeSetQuota:
		rec := SetQuota{Entity: r.entity()}
		rec.Name, rec.Value = r.string(), r.nullableFloat()
		return rec
	case typeAddACL:
		return AddACL{Binding: r.binding(), Ungated: r.present()}
	case typeRemoveACL:
		return RemoveACL{Binding: r.binding()}
	case typeRegisterBroker:
		return RegisterBroker{Broker: r.broker()}
	case typeFenceBroker:
		return FenceBroker{ID: r.int32(), Epoch: r.varint()}
	case typeUnregisterBroker:
		return UnregisterBroker{ID: r.int32()}
	case typeSnapshotTaken:
		return snapshotTaken{Offset: r.varint(), First: r.varint(), Bytes: r.varint()}
	}
	return nil
}
