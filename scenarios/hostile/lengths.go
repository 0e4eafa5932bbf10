package hostile

import (
	"bytes"
	"encoding/binary"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("Clients that lie about lengths", Label("hostile"), func() {
	It("cost one connection each and no memory for what they claim", func(ctx SpecContext) {
		f := newField(ctx)
		const hundred = 100
		metadata := func(version int16, body ...byte) []byte {
			h := header(3, version)
			if version >= 9 {
				h = append(h, 0)
			}
			return frame(append(h, body...))
		}
		huge := []byte{0xff, 0xff, 0xff, 0xff, 0x0f} // 2^32-1 as an unsigned varint
		f.endure(ctx,
			attack{name: "frame of -1 bytes", listener: "PLAINTEXT", count: many(hundred), reason: "malformed_request", do: says([]byte{0xff, 0xff, 0xff, 0xff})},
			attack{name: "frame of 0 bytes", listener: "PLAINTEXT", count: many(hundred), reason: "malformed_request", do: says(make([]byte, 4))},
			attack{name: "frame of 2 GiB - 1", listener: "PLAINTEXT", count: many(hundred), reason: "oversize_frame", do: says([]byte{0x7f, 0xff, 0xff, 0xff, 1, 2, 3})},
			attack{name: "frame over socket.request.max.bytes by one", listener: "PLAINTEXT", count: many(hundred), reason: "oversize_frame", do: says(binary.BigEndian.AppendUint32(nil, 100*mebibyte+1))},
			attack{name: "frame of 100 MiB of which 8 bytes come", spares: takesAtItsWord, listener: "PLAINTEXT", count: many(hundred), reason: "client_closed", hold: time.Second, do: says(append(binary.BigEndian.AppendUint32(nil, 100*mebibyte), header(0, 3)...))},
			attack{name: "the same inside TLS", spares: takesAtItsWord, listener: "SSL", count: many(hundred), reason: "client_closed", hold: time.Second, do: overTLS(says(append(binary.BigEndian.AppendUint32(nil, 100*mebibyte), header(0, 3)...)))},
			attack{name: "client id of 32,767 bytes that are not there", listener: "PLAINTEXT", count: many(hundred), reason: "malformed_request", do: says(frame([]byte{0, 3, 0, 1, 0, 0, 0, 7, 0x7f, 0xff}))},
			attack{name: "2^31-1 topics that are not there", listener: "PLAINTEXT", count: many(hundred), reason: "malformed_request", do: says(metadata(1, 0x7f, 0xff, 0xff, 0xff))},
			attack{name: "2^32-2 topics, as a compact array", listener: "PLAINTEXT", count: many(hundred), reason: "malformed_request", do: says(metadata(12, huge...))},
			attack{name: "topic name of -2 bytes", listener: "PLAINTEXT", count: many(hundred), reason: "malformed_request", do: says(metadata(1, 0, 0, 0, 1, 0xff, 0xfe))},
			attack{name: "2^32-1 tagged fields in the header", listener: "PLAINTEXT", count: many(hundred), reason: "malformed_request", do: says(frame(append(header(3, 12), huge...)))},
			attack{name: "varint that never ends", listener: "PLAINTEXT", count: many(hundred), reason: "malformed_request", do: says(metadata(12, bytes.Repeat([]byte{0xff}, 64)...))},
			attack{name: "frame over sasl.server.max.receive.size before SASL", listener: "SASL_PLAINTEXT", count: many(hundred), reason: "oversize_frame", do: says(binary.BigEndian.AppendUint32(nil, 524289))},
			attack{name: "SASL token of 512 KiB that is not there", listener: "SASL_PLAINTEXT", count: many(hundred), reason: "client_closed", hold: time.Second, do: says(binary.BigEndian.AppendUint32(nil, 524288))},
			attack{name: "after SASL: 2^31-1 topics", listener: "SASL_SSL", count: many(hundred), reason: "malformed_request", do: overTLS(loggedIn(f.password(), says(metadata(1, 0x7f, 0xff, 0xff, 0xff))))},
			attack{name: "record batch whose length is a lie", listener: "PLAINTEXT", count: many(hundred), reason: "client_closed", do: func(a *assailant) error { return a.ask(produce(lyingBatch())) }},
			attack{name: "10 MiB of zeros in 10 KiB of gzip, as records", listener: "PLAINTEXT", count: many(hundred), reason: "client_closed", do: func(a *assailant) error { return a.ask(produce(bomb())) }},
		)
	}, SpecTimeout(stage.Within(4*time.Minute)))
})

// takesAtItsWord is why Apache Kafka is spared long frames that do not come: unless queued.max.request.bytes says otherwise, it allocates what
// a frame's length claims, and a hundred of them are more than it has.
const takesAtItsWord = "it allocates what the length of a frame claims"

// produce is a request with one batch for partition 0 of a topic that may not exist.
func produce(batch []byte) kmsg.Request {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, -1, 1000
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = batch
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.Partitions = "attacked", append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}
