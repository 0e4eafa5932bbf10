package metadata

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerlab/brokerlab/broker/acl"
)

func (e *entry) encode() []byte { return appendRecords(e.appendHead(nil), e.records) }

// everyRecord has each type of record at least once.
func everyRecord() []Record {
	return []Record{
		setCluster{ID: "cluster"},
		SetFeature{Name: MetadataVersion, Level: 33},
		alice(),
		RemoveScram{User: "alice", Mechanism: ScramSHA512},
		SetConfig{Resource: broker1, Name: "max.connections", Value: new("10")},
		SetConfig{Resource: Resource{Type: ResourceBroker}, Name: "max.connections"},
		SetQuota{Entity: Entity{{Type: EntityUser, Name: new("u")}, {Type: EntityClientID}}, Name: "producer_byte_rate", Value: new(0.5)},
		SetQuota{Entity: Entity{{Type: EntityIP}}, Name: "connection_creation_rate"},
		AddACL{Binding: rangeRule("10.0.0.0/8")},
		AddACL{Binding: rangeRule("bad/path"), Ungated: true},
		RemoveACL{Binding: rangeRule("10.0.0.0/8")},
		RegisterBroker{Broker: Broker{
			ID: 3, Epoch: 1 << 40, Incarnation: "i", Rack: "r", MinLevel: 7, MaxLevel: 33, Fenced: true,
			Listeners: []BrokerListener{{Name: "A", Protocol: "SSL", Host: "h", Port: 9092}, {Name: "B", Protocol: "PLAINTEXT"}},
		}},
		FenceBroker{ID: 3, Epoch: 7},
		UnregisterBroker{ID: 3},
		snapshotTaken{Offset: 100, First: 7, Bytes: 1 << 33},
	}
}

func TestEntryIsReadAsItWasWritten(t *testing.T) {
	want := &entry{node: -1, incarnation: 1 << 60, sequence: 7, records: everyRecord()}
	got, err := decodeEntry(want.encode())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(entry{})); diff != "" {
		t.Errorf("entry changed (-want +got):\n%s", diff)
	}
}

// The bytes of a log outlive the program that wrote them.
func TestEntryFormatStaysAsItIs(t *testing.T) {
	for name, c := range map[string]struct {
		record Record
		want   string
	}{
		"cluster":   {setCluster{ID: "c"}, "00020403010100020163"},
		"feature":   {SetFeature{Name: "f", Level: 33}, "0002040301020003016642"},
		"scram":     {SetScram{"u", ScramCredential{"SCRAM-SHA-256", []byte{1}, []byte{2}, []byte{3}, 4096}}, "00020403010300180175" + "0d" + hex.EncodeToString([]byte("SCRAM-SHA-256")) + "0101" + "0102" + "0103" + "8040"},
		"no scram":  {RemoveScram{User: "u", Mechanism: "SCRAM-SHA-256"}, "00020403010400100175" + "0d" + hex.EncodeToString([]byte("SCRAM-SHA-256"))},
		"config":    {SetConfig{Resource: broker1, Name: "n", Value: new("v")}, "000204030105000804013" + "1016e010176"},
		"no config": {SetConfig{Resource: broker1, Name: "n"}, "000204030105000604013" + "1016e00"},
		"quota":     {SetQuota{Entity: Entity{{Type: "ip"}}, Name: "n", Value: new(1.0)}, "00020403010600100102697000016e013ff0000000000000"},
		"no quota":  {SetQuota{Entity: Entity{{Type: "ip", Name: new("a")}}, Name: "n"}, "000204030106000a010269700101" + "61016e00"},
		"rule":      {AddACL{Binding: acl.Binding{Pattern: acl.Pattern{Type: acl.Topic, Name: "t", Kind: acl.Literal}, Principal: "U:a", Host: "*", Operation: acl.Read, Permission: acl.Allow}}, "0002040301" + "07000d" + "02030303" + "0174" + "03553a61" + "012a" + "00"},
		"no rule":   {RemoveACL{Binding: acl.Binding{Pattern: acl.Pattern{Type: acl.Topic, Name: "t", Kind: acl.Literal}, Principal: "U:a", Host: "*", Operation: acl.Read, Permission: acl.Allow}}, "0002040301" + "08000c" + "02030303" + "0174" + "03553a61" + "012a"},
		"broker": {RegisterBroker{Broker: Broker{
			ID: 1, Epoch: 2, Incarnation: "i", Rack: "r", Listeners: []BrokerListener{{"L", "P", "h", 9}}, MinLevel: 7, MaxLevel: 33,
		}}, "0002040301" + "090011" + "0204" + "0169" + "0172" + "01" + "014c" + "0150" + "0168" + "12" + "0e4200"},
		"fence":     {FenceBroker{ID: 1, Epoch: 2}, "0002040301" + "0a0002" + "0204"},
		"no broker": {UnregisterBroker{ID: 1}, "0002040301" + "0b0001" + "02"},
		"snapshot":  {snapshotTaken{Offset: 3, First: 2, Bytes: 1}, "0002040301" + "0c0003" + "060402"},
	} {
		t.Run(name, func(t *testing.T) {
			e := entry{node: 1, incarnation: 2, sequence: 3, records: []Record{c.record}}
			if got := hex.EncodeToString(e.encode()); got != c.want {
				t.Errorf("bytes = %s, want %s", got, c.want)
			}
		})
	}
}

func TestUnknownRecordsAreAnErrorOfTheirOwn(t *testing.T) {
	for name, b := range map[string][]byte{
		"type":    {0, 2, 4, 3, 1, 99, 0, 0},
		"version": {0, 2, 4, 3, 1, typeSetCluster, 1, 2, 1, 'c'},
		"format":  {1, 2, 4, 3, 0},
	} {
		if _, err := decodeEntry(b); !errors.Is(err, ErrUnknownRecord) {
			t.Errorf("decodeEntry of an unknown %s = %v, want %v", name, err, ErrUnknownRecord)
		}
	}
}

func TestTruncatedEntriesAreErrors(t *testing.T) {
	whole := (&entry{node: 1, incarnation: 2, sequence: 3, records: everyRecord()}).encode()
	for n := range whole {
		if _, err := decodeEntry(whole[:n]); !errors.Is(err, errMalformed) {
			t.Errorf("decodeEntry of the first %d bytes = %v, want %v", n, err, errMalformed)
		}
	}
	if _, err := decodeEntry(append(whole, 0)); !errors.Is(err, errMalformed) {
		t.Errorf("decodeEntry with a byte beyond the end = %v, want %v", err, errMalformed)
	}
}

// What decodes encodes to bytes that decode to the same, applies without a panic, and never costs more memory than a
// small multiple of the bytes that claim it.
func FuzzDecodeEntry(f *testing.F) {
	f.Add((&entry{node: 1, incarnation: 2, sequence: 3, records: everyRecord()}).encode())
	f.Add([]byte{0, 2, 4, 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{0, 2, 4, 3, 1, typeSetQuota, 0, 10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decodeEntry(b)
		if err != nil {
			return
		}
		first := e.encode()
		again, err := decodeEntry(first)
		if err != nil {
			t.Fatalf("decodeEntry of what was encoded = %v", err)
		}
		if second := again.encode(); !bytes.Equal(first, second) {
			t.Fatalf("encoded once: %x, twice: %x", first, second)
		}
		_, _ = newBuilder(emptyImage(), acl.NewIndex()).apply(e)
	})
}
