package connbench

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What Apache Kafka 4.4.0 admitted a second at 10/s to eight clients that connected without a pause.
func TestTheRuleGivesWhatKafkaAdmits(t *testing.T) {
	got := perSecond(acceptorRate(Windows{11, time.Second}, 10, 8, time.Millisecond, 13), 13)
	if got[0] < 100 || got[0] > 112 || slices.Max(got[1:11]) > 2 || got[11]+got[12] < 90 {
		t.Errorf("with eleven windows: %v, Kafka 109, 1 (x 11), 100", got)
	}
	got = perSecond(acceptorRate(Windows{2, time.Second}, 10, 8, time.Millisecond, 4), 4)
	if got[0] < 18 || got[0] > 21 || got[1] > 3 || got[2] < 15 || got[3] > 3 {
		t.Errorf("with two windows: %v, Kafka 19, 1, 19, 1", got)
	}
	// Each address holds its own, and what is refused does not count.
	got = perSecond(addressRate(Windows{11, time.Second}, 10, 8, time.Millisecond, 3), 3)
	if got[0] < 100 || got[0] > 110 {
		t.Errorf("an address: %v, want about 100 at first", got)
	}
}

func TestLimitsAreReadAsKafkaAppliesThem(t *testing.T) {
	const listeners = "listeners=PLAINTEXT://:9092,SSL://:9093,CONTROLLER://:9094 controller.listener.names=CONTROLLER "
	for text, want := range map[string]string{
		listeners:                                "SSL:",
		listeners + "max.connections=2147483647": "SSL:",
		listeners + "max.connections=10 max.ssl.connections=5":                                                                           "SSL: max.connections=10 max.ssl.connections=5",
		listeners + "max.connections=10 listener.name.ssl.max.connections=7":                                                             "SSL: listener.name.ssl.max.connections=7@SSL max.connections=10",
		listeners + "max.connections=10 max.ssl.connections=5 inter.broker.listener.name=SSL":                                            "SSL: max.connections=10@SSL",
		listeners + "security.inter.broker.protocol=SSL listener.name.ssl.max.connection.creation.rate=3":                                "SSL: listener.name.ssl.max.connection.creation.rate=3@SSL",
		"listeners=SSL://:9093,CONTROLLER://:9094 controller.listener.names=CONTROLLER inter.broker.listener.name=SSL max.connections=4": "SSL: max.connections=4",
		"listeners=SSL://:19093 advertised.listeners=SSL://a.example:9093 max.connections.per.ip=3":                                      "SSL: max.connections.per.ip=3",
		"listeners=SSL://:1 max.connections.per.ip.overrides=::1:4,127.0.0.1:x,bad max.connections=2":                                    ": max.connections=2 max.connections.per.ip.overrides ::1=4",
	} {
		configs := brokerConfigs{}
		for entry := range strings.FieldsSeq(text) {
			name, value, _ := strings.Cut(entry, "=")
			configs[name] = kmsg.DescribeConfigsResponseResourceConfig{Name: name, Value: &value}
		}
		listener, beside := configs.listenerOf(9093)
		l := configs.limits(listener, beside, true)
		got := l.Listener + ":"
		for i := range l.Apply {
			got += " " + strings.Split(l.Apply[i].String(), ",")[0]
			got = strings.ReplaceAll(strings.ReplaceAll(got, " of the broker", ""), " of listener ", "@")
		}
		if got != want {
			t.Errorf("%s\n  = %s, want %s", text, got, want)
		}
	}
}

func TestJavaSaysWhatItsHeapHolds(t *testing.T) {
	for text, want := range map[string]int64{
		"4711:\n garbage-first heap   total 262144K, used 24576K [0x00, 0x01)\n  region size 1024K, 3 young (3072K)\n Metaspace       used 30000K, committed 30208K, reserved 1114112K\n  class space    used 3000K": 24 << 20,
		" PSYoungGen      total 9216K, used 1024K [0x0)\n ParOldGen       total 19456K, used 2048K\n":                                                                                                                3 << 20,
		" ZHeap           used 38M, capacity 64M, max capacity 512M\n":                                                                                                                                               38 << 20,
	} {
		if got, ok := heapUsed(text); got != want || !ok {
			t.Errorf("heapUsed(%q) = %d, %t, want %d", text, got, ok, want)
		}
	}
	if _, ok := heapUsed("4711:\n"); ok {
		t.Error("heapUsed finds a heap where there is none")
	}
	if got := heapMax([]string{"java", "-Xmx512m", "-XX:MaxHeapSize=1073741824"}); got != 1<<30 {
		t.Errorf("heapMax() = %d, want the last one", got)
	}
}

func TestSizesAreRead(t *testing.T) {
	for text, want := range map[string]int64{"8GiB": 8 << 30, "512m": 512 << 20, "1.5 GB": 3 << 29, "1073741824": 1 << 30, "64KiB": 64 << 10} {
		if got, err := ParseSize(text); got != want || err != nil {
			t.Errorf("ParseSize(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "GiB", "-1G", "8 apples", "1e30", "NaN", "0", "9999999T"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", text, got)
		}
	}
}

func TestClientsAreSharedOutEvenly(t *testing.T) {
	o := &Options{Targets: []Target{{Name: "a"}, {Name: "b"}, {Name: "c"}}}
	counts := map[string]int{}
	turn := 0
	for _, n := range []int{1, 1, 1, 4, 5} {
		p := o.plan(n, turn)
		if p.Connections() != n {
			t.Errorf("plan(%d) has %d connections", n, p.Connections())
		}
		for i := range p.Groups {
			counts[p.Groups[i].Name] += p.Groups[i].Count
		}
		turn += n
	}
	for name, n := range counts {
		if n != 4 {
			t.Errorf("%s has %d of 12 connections: %v", name, n, counts)
		}
	}
	if number(-1234567) != "-1,234,567" || number(999) != "999" || number(-123) != "-123" || number(1000) != "1,000" {
		t.Errorf("number() = %s %s", number(-1234567), number(-123))
	}
}
