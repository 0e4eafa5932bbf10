package configpush

import (
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/broker/configpush"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("A push of hostile content", Label("configpush"), stage.Needs(stage.ConfigPush), func() {
	It("is kept, and shown so that it does no harm", func(ctx SpecContext) {
		s := newGround(ctx, store)
		hostile := []fleet.Config{
			{Key: "\x1b[2J\x1b]0;owned\x07", Value: "\x00\r\n\t"},
			{Key: "bidi", Value: "\u202egnp.exe\u2066"},
			{Key: "no utf-8", Value: "\xff\xfe\x80"},
			{Key: "\xc3\x28", Value: "'; DROP TABLE client; --"},
			{Key: "<script>alert(1)</script>", Value: "=cmd|' /C calc'!A0"},
			{Key: "unknown type", Value: "", Type: -128},
			{Key: "sasl.jaas.config", Value: "org.example.PlainLoginModule required password=\"hunter2\";"},
			{Key: "harmless", Value: "password=hunter2"},
			{Key: "ssl.key.password", Value: "hunter2", Type: 9},
		}
		g := one(s, "SASL_SSL", "alice", hostile...)
		g.ClientID = "\x1b[31m\u202ered"
		f := in(ctx, s, g)
		Expect(f.Records()[0].Push).To(BeZero())
		rows := kept(ctx, s)
		Expect(rows).To(HaveLen(1))
		Expect(rows[0].ClientID).To(Equal(`\x1b[31m\u202ered`))
		entries := rows[0].Configurations[0].Entries
		Expect(entries).To(HaveLen(len(hostile)))
		for i := range entries {
			e := &entries[i]
			Expect(e.Key).To(Equal(configpush.Printable(hostile[i].Key)))
			for _, text := range []string{e.Key, e.Value} {
				Expect(utf8.ValidString(text)).To(BeTrue(), "%q", text)
				for _, r := range text {
					Expect(unicode.IsPrint(r)).To(BeTrue(), "%q", text)
				}
			}
			Expect(e.Type).To(Equal(hostile[i].Type))
			Expect(e.Redacted).To(Equal(i >= len(hostile)-3), "%s", e.Key)
		}
		Expect(s.LogText()).NotTo(ContainSubstring("hunter2"))
		Expect(fmt.Sprint(rows)).NotTo(ContainSubstring("hunter2"))
	}, SpecTimeout(time.Minute))

	It("of 100,000 keys is refused as it comes, and where it is allowed is kept whole", func(ctx SpecContext) {
		s := newGround(ctx, store)
		many := make([]fleet.Config, stage100k())
		for i := range many {
			many[i] = fleet.Config{Key: fmt.Sprintf("key.number.%d.of.many", i), Value: "й"}
		}
		begin := time.Now()
		f := in(ctx, s, one(s, "SASL_PLAINTEXT", "alice", many...))
		Expect(f.Records()[0].Push).To(Equal(tooLarge))
		report.Attach(report.Figure{Name: fmt.Sprintf("until %d keys are refused", len(many)), Value: milliseconds(time.Since(begin)), Unit: "ms"})
		s.Set(ctx, "client.config.max.bytes=100000000")
		begin = time.Now()
		Expect(repush(ctx, f, many...).ErrorCode).To(BeZero())
		report.Attach(report.Figure{Name: "until they are kept", Value: milliseconds(time.Since(begin)), Unit: "ms"})
		rows := kept(ctx, s)
		Expect(rows).To(HaveLen(1))
		Expect(rows[0].Configurations[0].Entries).To(HaveLen(len(many)))
		Expect(s.Ping(ctx)).To(Succeed())
	}, SpecTimeout(2*time.Minute))
})
