package command

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/broker/admin/admintest"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// ownKeys are the requests about connections that a broker of ours has.
func ownKeys() []int16 {
	return []int16{
		protocol.DefaultListClientConnectionsKey, protocol.DefaultDescribeConnectionsKey, protocol.DefaultDescribeKernelKey,
		protocol.DefaultDescribeClosedKey, protocol.DefaultDescribeLimitsKey, protocol.DefaultCloseConnectionsKey,
		protocol.DefaultDescribeTimelineKey, protocol.DefaultDescribeClientConfigsKey,
	}
}

// lone is a real broker that is alone, and a face of it in a cluster of several: what the face is asked the broker answers.
func lone(t *testing.T, node int32, properties ...string) (b *broker.Broker, face *admintest.Broker) {
	t.Helper()
	b = admintest.Real(t, append([]string{"node.id=" + strconv.Itoa(int(node)), "listeners=PLAINTEXT://127.0.0.1:0"}, properties...))
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr("PLAINTEXT").String()), admin.Versions(protocol.DefaultKeys()), kgo.ClientID("face"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return b, &admintest.Broker{NodeID: node, Keys: ownKeys(), Handle: func(req kmsg.Request) kmsg.Response {
		resp, err := cl.Request(t.Context(), req)
		if err != nil {
			t.Errorf("broker %d: %T: %v", node, req, err)
			return nil
		}
		return resp
	}}
}

// hanging is a broker that takes connections and answers nothing that is about them until the test ends.
func hanging(t *testing.T, node int32) *admintest.Broker {
	t.Helper()
	return &admintest.Broker{NodeID: node, Keys: ownKeys(), Handle: func(kmsg.Request) kmsg.Response {
		<-t.Context().Done()
		return nil
	}}
}

// missingOf are the nodes that a JSON document names as brokers that did not answer.
func missingOf(t *testing.T, text string) []int32 {
	t.Helper()
	var found []int32
	for decoder := json.NewDecoder(strings.NewReader(text)); decoder.More(); {
		var doc any
		if err := decoder.Decode(&doc); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		rows, ok := doc.([]any) // of kernel, whose rows of brokers have the error
		if !ok {
			rows, _ = doc.(map[string]any)["errors"].([]any)
		}
		for _, r := range rows {
			one, _ := r.(map[string]any)
			node, ok := one["nodeId"].(float64)
			if !ok {
				node, _ = one["node"].(float64)
			}
			if one["error"] != nil && one["error"] != "" && !slices.Contains(found, int32(node)) {
				found = append(found, int32(node))
			}
		}
	}
	return found
}

// Every command that asks all brokers shows what those say that answer, names the others, and ends with 1.
func TestCommandsShowTheBrokersThatAnswerAndNameTheOthers(t *testing.T) {
	t.Parallel()
	const keeps = "client.config.policy.class.name=store"
	one, faceOne := lone(t, 1, keeps)
	_, faceTwo := lone(t, 2, keeps)
	faces := admintest.Start(t, faceOne, faceTwo, &admintest.Broker{NodeID: 3, Down: true}, hanging(t, 4))
	counted := admintest.Start(t, exactly(3, 3).broker(1), exactly(3, 3).broker(2), &admintest.Broker{NodeID: 3, Down: true}, hanging(t, 4))
	properties := writeProperties(t, "request.timeout.ms=3000", "socket.connection.setup.timeout.ms=3000")
	hold(t, one.Addr("PLAINTEXT").String(), 1)
	for _, tt := range []struct {
		args    string
		cluster *admintest.Cluster
		shows   [2]string // of broker 1 and of broker 2, in the table; "" where it shows nothing of them
	}{
		{"connections list", faces, [2]string{one.Addr("PLAINTEXT").String(), ""}},
		{"connections list --wide", faces, [2]string{"node 1 ", "node 2 "}},
		{"connections list --closed", faces, [2]string{}},
		{"connections list --group-by software", faces, [2]string{}},
		{"connections watch --count 1", faces, [2]string{}},
		{"connections timeline --listener PLAINTEXT", faces, [2]string{"of broker 1,", "of broker 2,"}},
		{"connections close --client-address 192.0.2.1", faces, [2]string{}},
		{"limits show", faces, [2]string{"broker 1,", "broker 2,"}},
		{"limits watch --count 1", faces, [2]string{"node=1 ", "node=2 "}},
		{"clients list", faces, [2]string{}},
		{"clients show", faces, [2]string{}},
		{"kernel show", counted, [2]string{"broker 1:", "broker 2:"}},
		{"kernel watch --count 1", counted, [2]string{"node=1 ", "node=2 "}},
		{"kernel reconcile", counted, [2]string{"broker 1:", "broker 2:"}},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"brokerlab"}, strings.Fields(tt.args)...)
			args = append(args, "--bootstrap-server", tt.cluster.Addr(0), "--command-config", properties)
			got := run(t, args...)
			if got.code != 1 || !strings.Contains(got.errout, "broker 3 (") || !strings.Contains(got.errout, "broker 4 (") || strings.Contains(got.errout, "broker 1 (") {
				t.Errorf("%s = %+v, want the errors of brokers 3 and 4 alone, and exit status 1", tt.args, got)
			}
			for _, want := range tt.shows {
				if !strings.Contains(got.out, want) {
					t.Errorf("%s printed\n%s\nwant %q in it", tt.args, got.out, want)
				}
			}
			got = run(t, append(args, "--format", "json")...)
			if missing := missingOf(t, got.out); got.code != 1 || !slices.Equal(missing, []int32{3, 4}) {
				t.Errorf("%s as JSON = %+v\nnames %v, want 3 and 4", tt.args, got, missing)
			}
			got = run(t, append(args, "--node", "2", "--node", "1")...)
			empty := strings.Contains(tt.args, "timeline") || strings.Contains(tt.args, "clients show") // nobody may have what they ask for
			if strings.Contains(got.errout, "broker 3") || got.code != 0 && !empty {
				t.Errorf("%s of brokers 1 and 2 = %+v", tt.args, got)
			}
		})
	}
}

// A broker that hangs holds a watch up once a look, is named once, and is named again when it answers.
func TestAWatchNamesABrokerWhenItBeginsToBeMissingAndWhenItIsBack(t *testing.T) {
	t.Parallel()
	l := new(listing)
	flaky := l.broker(2)
	answer, times := flaky.Handle, 0
	flaky.Handle = func(req kmsg.Request) kmsg.Response {
		if _, ok := req.(*protocol.ListClientConnectionsRequest); ok {
			times++
			if times == 2 || times == 3 {
				l.code = 31 // CLUSTER_AUTHORIZATION_FAILED
			} else {
				l.code = 0
			}
		}
		return answer(req)
	}
	c := admintest.Start(t, new(listing).broker(1), flaky)
	got := run(t, "brokerlab", "connections", "watch", "--bootstrap-server", c.Addr(0), "--interval", "10ms", "--count", "4", "--format", "json")
	if lines := strings.Split(strings.TrimSpace(got.errout), "\n"); got.code != 0 || len(lines) != 2 ||
		!strings.Contains(lines[0], "CLUSTER_AUTHORIZATION_FAILED") || lines[1] != "brokerlab: broker 2: answers again" {
		t.Errorf("watch = %+v, want two lines of errors and exit status 0", got)
	}
	if n := strings.Count(got.out, `"nodeId":2`); n != 2 {
		t.Errorf("watch printed\n%s\nnamed broker 2 %d times, want 2", got.out, n)
	}
}

func TestAnswersOfMoreThanOneQuestionWaitForAHangingBrokerOnce(t *testing.T) {
	t.Parallel()
	c := admintest.Start(t, new(listing).broker(1), &admintest.Broker{NodeID: 2, Hangs: true})
	properties := writeProperties(t, "default.api.timeout.ms=8000")
	begin := time.Now()
	got := run(t, "brokerlab", "connections", "list", "--group-by", "listener", "--bootstrap-server", c.Addr(0), "--command-config", properties)
	if got.code != 1 || strings.Count(got.errout, "\n") != 1 || !strings.Contains(got.errout, "broker 2 (") || !strings.Contains(got.out, "LISTENER") {
		t.Errorf("list after %v = %+v, want the error of broker 2 alone", time.Since(begin), got)
	}
}
