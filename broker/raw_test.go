package broker_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker"
)

// raw is a connection that sends whatever it is told to.
type raw struct {
	t    *testing.T
	conn net.Conn
}

func dial(t *testing.T, addr netip.AddrPort) *raw {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	r := &raw{t, conn}
	t.Cleanup(r.close)
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return r
}

// close hangs up; the broker may have done so before.
func (r *raw) close() { _ = r.conn.Close() }

// frame sends one request: a header, then body.
func (r *raw) frame(key, version int16, flexible bool, body []byte) {
	r.t.Helper()
	r.bytes(framed(key, version, flexible, body))
}

// framed is a request as it is sent.
func framed(key, version int16, flexible bool, body []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, 7)      // correlation id
	b = binary.BigEndian.AppendUint16(b, 0xffff) // a null client id
	if flexible {
		b = append(b, 0)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b)+len(body))), append(b, body...)...)
}

func (r *raw) bytes(b []byte) {
	r.t.Helper()
	if _, err := r.conn.Write(b); err != nil {
		r.t.Fatalf("write: %v", err)
	}
}

func (r *raw) request(req kmsg.Request) {
	r.t.Helper()
	r.frame(req.Key(), req.GetVersion(), req.IsFlexible(), req.AppendTo(nil))
}

// answer reads one response's body; [io.EOF] means that the broker closed instead.
func (r *raw) answer(flexible bool) ([]byte, error) {
	r.t.Helper()
	var size [4]byte
	if _, err := io.ReadFull(r.conn, size[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(r.conn, b); err != nil {
		return nil, err
	}
	if id := binary.BigEndian.Uint32(b); id != 7 {
		r.t.Fatalf("correlation id = %d, want 7", id)
	}
	if b = b[4:]; flexible {
		b = b[1:]
	}
	return b, nil
}

// ask sends req and decodes the response.
func ask[P kmsg.Response](r *raw, req kmsg.Request) P {
	r.t.Helper()
	r.request(req)
	resp := req.ResponseKind().(P)
	b, err := r.answer(resp.IsFlexible() && req.Key() != 18)
	if err != nil {
		r.t.Fatalf("answer to %s v%d: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	if err := resp.ReadFrom(b); err != nil {
		r.t.Fatalf("decode answer to %s v%d: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return resp
}

// closed fails unless the broker closes without a byte.
func (r *raw) closed(what string) {
	r.t.Helper()
	b, err := r.answer(false)
	if !errors.Is(err, io.EOF) && !isReset(err) {
		r.t.Errorf("%s: got %x, %v, want the connection closed unanswered", what, b, err)
	}
}

func isReset(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && !op.Timeout()
}

func versionsRequest(version int16) *kmsg.ApiVersionsRequest {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = version, "raw-test", "1.0"
	return req
}

func TestRequestsThatKafkaDoesNotAnswerCloseTheConnection(t *testing.T) {
	t.Parallel()
	b := start(t, plainConfig())
	addr := b.Addr("PLAINTEXT")
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Version = 12
	whole := metadata.AppendTo(nil)
	for what, send := range map[string]func(*raw){
		"a version too high":         func(r *raw) { r.frame(3, 99, false, nil) },
		"a version too low":          func(r *raw) { r.frame(0, 2, false, nil) },
		"a negative version":         func(r *raw) { r.frame(3, -1, false, nil) },
		"an unknown key":             func(r *raw) { r.frame(9999, 0, false, nil) },
		"a negative key":             func(r *raw) { r.frame(-1, 0, false, nil) },
		"an API of controllers":      func(r *raw) { r.frame(52, 0, true, nil) },
		"another's message at 93":    func(r *raw) { r.frame(93, 1, true, nil) },
		"a header of three bytes":    func(r *raw) { r.bytes([]byte{0, 0, 0, 3, 0, 3, 0}) },
		"an empty frame":             func(r *raw) { r.bytes([]byte{0, 0, 0, 0}) },
		"a negative size":            func(r *raw) { r.bytes([]byte{0xff, 0xff, 0xff, 0xff}) },
		"an oversize frame":          func(r *raw) { r.bytes([]byte{0x7f, 0xff, 0xff, 0xff}) },
		"a body that ends early":     func(r *raw) { r.frame(3, 12, true, whole[:len(whole)-1]) },
		"an array that is not there": func(r *raw) { r.frame(3, 1, false, []byte{0x7f, 0xff, 0xff, 0xff}) },
		"a client id that is not there": func(r *raw) {
			r.bytes([]byte{0, 0, 0, 12, 0, 3, 0, 1, 0, 0, 0, 7, 0x7f, 0xff, 'a', 'b'})
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := dial(t, addr)
			send(r)
			r.closed(what)
		})
	}
}

func TestApiVersionsAnswersVersionsThatNobodyKnows(t *testing.T) {
	t.Parallel()
	b := start(t, plainConfig())
	r := dial(t, b.Addr("PLAINTEXT"))
	for _, version := range []int16{6, 99, -1, -32768, 32767} {
		r.frame(18, version, version >= 3, nil)
		body, err := r.answer(false)
		if err != nil {
			t.Fatalf("ApiVersions v%d: %v", version, err)
		}
		// error 35, one range: key 18, versions 0 to 5.
		if want := []byte{0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 5}; !bytes.Equal(body, want) {
			t.Errorf("ApiVersions v%d = %v, want %v", version, body, want)
		}
	}
	if resp := ask[*kmsg.ApiVersionsResponse](r, versionsRequest(3)); resp.ErrorCode != 0 {
		t.Errorf("ApiVersions v3 afterwards = error %d, want none", resp.ErrorCode)
	}
}

func TestApiVersionsTellsEveryVersionWhatItCanCarry(t *testing.T) {
	t.Parallel()
	b := start(t, plainConfig())
	r := dial(t, b.Addr("PLAINTEXT"))
	for version := range int16(6) {
		resp := ask[*kmsg.ApiVersionsResponse](r, versionsRequest(version))
		if resp.ErrorCode != 0 || !slices.IsSortedFunc(resp.ApiKeys, func(a, b kmsg.ApiVersionsResponseApiKey) int { return int(a.ApiKey) - int(b.ApiKey) }) {
			t.Fatalf("ApiVersions v%d = error %d, or unsorted", version, resp.ErrorCode)
		}
		have := map[int16][2]int16{}
		for _, k := range resp.ApiKeys {
			have[k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
		}
		for key, want := range map[int16][2]int16{
			0: {0, 13}, 1: {4, 18}, 3: {0, 13}, 18: {0, 5},
			93: {0, 0}, 10001: {0, 0}, 10002: {0, 0}, 10003: {0, 0}, 10004: {0, 0}, 10005: {0, 0}, 10006: {0, 0},
		} {
			if have[key] != want {
				t.Errorf("ApiVersions v%d: key %d has versions %v, want %v", version, key, have[key], want)
			}
		}
		lowest := map[string]int16{}
		for _, f := range resp.SupportedFeatures {
			lowest[f.Name] = f.MinVersion
		}
		if _, zero := lowest["group.version"]; zero != (version >= 4) {
			t.Errorf("ApiVersions v%d names features that may be 0: %v, want %v", version, zero, version >= 4)
		}
		if _, ok := lowest["metadata.version"]; ok != (version >= 3) {
			t.Errorf("ApiVersions v%d names metadata.version: %v, want %v", version, ok, version >= 3)
		}
	}
}

func TestApiVersionsChecksWhatTheClientSaysOfItself(t *testing.T) {
	t.Parallel()
	cfg := plainConfig()
	cfg.ClusterID = "Zm9vYmFyYmF6cXV4MTIzNA"
	b := start(t, cfg)
	r := dial(t, b.Addr("PLAINTEXT"))
	text := func(s string) *string { return &s }
	for what, c := range map[string]struct {
		change func(*kmsg.ApiVersionsRequest)
		want   int16
	}{
		"no software":         {func(q *kmsg.ApiVersionsRequest) { q.ClientSoftwareName = "" }, 42},
		"an odd version":      {func(q *kmsg.ApiVersionsRequest) { q.ClientSoftwareVersion = "1.0 beta" }, 42},
		"a cluster id alone":  {func(q *kmsg.ApiVersionsRequest) { q.ClusterID = text(cfg.ClusterID) }, 42},
		"a node id alone":     {func(q *kmsg.ApiVersionsRequest) { q.NodeID = 1 }, 42},
		"another cluster":     {func(q *kmsg.ApiVersionsRequest) { q.ClusterID, q.NodeID = text("other"), 1 }, 129},
		"a node below none":   {func(q *kmsg.ApiVersionsRequest) { q.ClusterID, q.NodeID = text(cfg.ClusterID), -2 }, 129},
		"another node":        {func(q *kmsg.ApiVersionsRequest) { q.ClusterID, q.NodeID = text(cfg.ClusterID), 2 }, 129},
		"this very broker":    {func(q *kmsg.ApiVersionsRequest) { q.ClusterID, q.NodeID = text(cfg.ClusterID), 1 }, 0},
		"neither of the two":  {func(*kmsg.ApiVersionsRequest) {}, 0},
		"inner dots and dash": {func(q *kmsg.ApiVersionsRequest) { q.ClientSoftwareName = "a.b-c" }, 0},
	} {
		req := versionsRequest(5)
		c.change(req)
		if resp := ask[*kmsg.ApiVersionsResponse](r, req); resp.ErrorCode != c.want {
			t.Errorf("%s: error %d, want %d", what, resp.ErrorCode, c.want)
		}
	}
}

func TestBytesAfterABodyAreIgnored(t *testing.T) {
	t.Parallel()
	b := start(t, plainConfig())
	r := dial(t, b.Addr("PLAINTEXT"))
	r.frame(3, 1, false, []byte{0xff, 0xff, 0xff, 0xff, 'm', 'o', 'r', 'e'})
	body, err := r.answer(false)
	if err != nil {
		t.Fatal(err)
	}
	resp := kmsg.NewPtrMetadataResponse()
	resp.Version = 1
	if err := resp.ReadFrom(body); err != nil || len(resp.Brokers) != 1 {
		t.Errorf("Metadata = %+v, %v, want one broker", resp, err)
	}
}

func TestSASLRequestsOutOfPlaceAreAnswered(t *testing.T) {
	t.Parallel()
	b := start(t, plainConfig())
	r := dial(t, b.Addr("PLAINTEXT"))
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Version, handshake.Mechanism = 1, "PLAIN"
	if resp := ask[*kmsg.SASLHandshakeResponse](r, handshake); resp.ErrorCode != 34 {
		t.Errorf("SaslHandshake = error %d, want 34", resp.ErrorCode)
	}
	token := kmsg.NewPtrSASLAuthenticateRequest()
	token.Version = 2
	resp := ask[*kmsg.SASLAuthenticateResponse](r, token)
	if want := "SaslAuthenticate request received after successful authentication"; resp.ErrorCode != 34 || resp.ErrorMessage == nil || *resp.ErrorMessage != want {
		t.Errorf("SaslAuthenticate = %+v, want 34 %q", resp, want)
	}
}

func saslConfig() *broker.Config {
	cfg := plainConfig()
	cfg.Listeners = []broker.ListenerConfig{{
		Name: "SASL", Protocol: broker.SASLPlaintext, Host: "127.0.0.1", Threads: 1, MaxAuthFrame: 1000,
		Mechanisms: []string{"PLAIN", "SCRAM-SHA-256"}, Plain: map[string]string{"alice": "alice-secret"},
	}}
	return cfg
}

func handshake(mechanism string) *kmsg.SASLHandshakeRequest {
	req := kmsg.NewPtrSASLHandshakeRequest()
	req.Version, req.Mechanism = 1, mechanism
	return req
}

func token(text string) *kmsg.SASLAuthenticateRequest {
	req := kmsg.NewPtrSASLAuthenticateRequest()
	req.Version, req.SASLAuthBytes = 2, []byte(text)
	return req
}

func TestASASLListenerWantsAuthenticationFirst(t *testing.T) {
	t.Parallel()
	b := start(t, saslConfig())
	addr := b.Addr("SASL")
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Version, metadata.Topics = 4, []kmsg.MetadataRequestTopic{{Topic: new("t")}}

	r := dial(t, addr)
	r.request(metadata)
	r.closed("Metadata before anything")

	r = dial(t, addr)
	r.bytes([]byte{0, 0, 0x10, 0})
	r.closed("a frame over sasl.server.max.receive.size")

	r = dial(t, addr)
	if resp := ask[*kmsg.SASLHandshakeResponse](r, handshake("plain")); resp.ErrorCode != 33 || !slices.Equal(resp.SupportedMechanisms, []string{"PLAIN", "SCRAM-SHA-256"}) {
		t.Errorf("SaslHandshake plain = %+v, want 33 and both mechanisms", resp)
	}
	r.closed("after an unsupported mechanism")

	r = dial(t, addr)
	ask[*kmsg.ApiVersionsResponse](r, versionsRequest(3))
	r.request(versionsRequest(3))
	r.closed("a second ApiVersions")

	r = dial(t, addr)
	ask[*kmsg.SASLHandshakeResponse](r, handshake("PLAIN"))
	refused := ask[*kmsg.MetadataResponse](r, metadata)
	if len(refused.Topics) != 1 || refused.Topics[0].ErrorCode != 34 {
		t.Errorf("Metadata during authentication = %+v, want topic t with 34", refused)
	}
	r.closed("after 34")

	r = dial(t, addr)
	ask[*kmsg.SASLHandshakeResponse](r, handshake("PLAIN"))
	r.frame(18, 99, true, nil)
	// error 34, no ranges
	if body, err := r.answer(false); err != nil || !bytes.Equal(body, []byte{0, 34, 0, 0, 0, 0}) {
		t.Errorf("ApiVersions v99 during authentication = %v, %v, want 34 in the shape of v0", body, err)
	}
	r.closed("after ApiVersions v99 during authentication")

	r = dial(t, addr)
	ask[*kmsg.SASLHandshakeResponse](r, handshake("PLAIN"))
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey = "g"
	if resp := ask[*kmsg.FindCoordinatorResponse](r, find); resp.ErrorCode != 34 || resp.NodeID != -1 || resp.Port != -1 {
		t.Errorf("FindCoordinator during authentication = %+v, want 34 and no node", resp)
	}
	r.closed("after FindCoordinator during authentication")

	r = dial(t, addr)
	ask[*kmsg.SASLHandshakeResponse](r, handshake("PLAIN"))
	resp := ask[*kmsg.SASLAuthenticateResponse](r, token("\x00alice\x00wrong"))
	if want := "Authentication failed: Invalid username or password"; resp.ErrorCode != 58 || resp.ErrorMessage == nil || *resp.ErrorMessage != want {
		t.Errorf("SaslAuthenticate = %+v, want 58 %q", resp, want)
	}
	r.closed("after a wrong password")

	r = dial(t, addr)
	ask[*kmsg.ApiVersionsResponse](r, versionsRequest(3))
	ask[*kmsg.SASLHandshakeResponse](r, handshake("PLAIN"))
	if resp := ask[*kmsg.SASLAuthenticateResponse](r, token("\x00alice\x00alice-secret")); resp.ErrorCode != 0 || resp.ErrorMessage == nil || *resp.ErrorMessage != "" {
		t.Errorf("SaslAuthenticate = %+v, want success with an empty text", resp)
	}
	if resp := ask[*kmsg.MetadataResponse](r, metadata); len(resp.Brokers) != 1 {
		t.Errorf("Metadata = %+v, want one broker", resp)
	}
	if resp := ask[*kmsg.SASLAuthenticateResponse](r, token("again")); resp.ErrorCode != 34 {
		t.Errorf("SaslAuthenticate afterwards = error %d, want 34", resp.ErrorCode)
	}
	if resp := ask[*kmsg.ApiVersionsResponse](r, versionsRequest(4)); resp.ErrorCode != 0 {
		t.Errorf("ApiVersions afterwards = error %d, want none", resp.ErrorCode)
	}
}

func TestRawTokensAfterSaslHandshakeV0Authenticate(t *testing.T) {
	t.Parallel()
	b := start(t, saslConfig())
	r := dial(t, b.Addr("SASL"))
	old := handshake("PLAIN")
	old.Version = 0
	ask[*kmsg.SASLHandshakeResponse](r, old)
	text := "\x00alice\x00alice-secret"
	r.bytes(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	var size [4]byte
	if _, err := io.ReadFull(r.conn, size[:]); err != nil || size != [4]byte{} {
		t.Fatalf("answer to a raw token = %v, %v, want an empty frame", size, err)
	}
	req := kmsg.NewPtrDescribeClusterRequest()
	if resp := ask[*kmsg.DescribeClusterResponse](r, req); resp.ErrorCode != 0 || len(resp.Brokers) != 1 {
		t.Errorf("DescribeCluster = %+v, want one broker", resp)
	}
}

func TestAProduceThatWantsNoAnswerGetsNoneOrTheConnectionClosed(t *testing.T) {
	t.Parallel()
	cfg := plainConfig()
	cfg.AutoCreateTopics = false
	b := start(t, cfg)
	r := dial(t, b.Addr("PLAINTEXT"))
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version, create.TimeoutMillis = 5, 10_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "silent", 1, 1
	create.Topics = append(create.Topics, topic)
	if resp := ask[*kmsg.CreateTopicsResponse](r, create); resp.Topics[0].ErrorCode != 0 {
		t.Fatalf("CreateTopics = %+v", resp)
	}
	wantSilence(t, r, "silent", 1)
}

// wantSilence produces n batches with acks=0 to a topic of one partition that is empty, wants the answer to what comes after them next, and the
// connection closed by one that fails.
func wantSilence(t *testing.T, r *raw, topic string, n int) {
	t.Helper()
	produce := kmsg.NewPtrProduceRequest()
	produce.Version, produce.Acks, produce.TimeoutMillis = 9, 0, 1000
	produce.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: batch("one")}}}}
	for range n {
		r.request(produce)
	}
	offsets := kmsg.NewPtrListOffsetsRequest()
	offsets.Version, offsets.ReplicaID = 5, -1
	end := kmsg.NewListOffsetsRequestTopicPartition()
	end.Timestamp = -1
	offsets.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{end}}}
	if resp := ask[*kmsg.ListOffsetsResponse](r, offsets); resp.Topics[0].Partitions[0].Offset != int64(n) {
		t.Errorf("ListOffsets = %+v, want end offset %d: the answer to what came after the produce", resp, n)
	}
	produce.Topics[0].Topic = "no-such-topic"
	r.request(produce)
	r.closed("a failed produce with acks=0")
}

// Each element of a list becomes a struct when it is decoded: a few megabytes of empty names would
// become a gigabyte.
func TestARequestThatWouldDecodeIntoAGigabyteIsRefused(t *testing.T) {
	t.Parallel()
	b := start(t, plainConfig())
	r := dial(t, b.Addr("PLAINTEXT"))
	const names = 12 << 20
	body := append(binary.BigEndian.AppendUint32(nil, names), make([]byte, 2*names)...)
	r.frame(3, 1, false, body)
	r.closed("twelve million topic names")
}

func TestTokensOfAReauthenticationAreAsShortAsTheFirst(t *testing.T) {
	t.Parallel()
	cfg := saslConfig()
	cfg.Listeners[0].MaxReauth = map[string]time.Duration{"PLAIN": time.Hour}
	b := start(t, cfg)
	authenticated := func() *raw {
		r := dial(t, b.Addr("SASL"))
		ask[*kmsg.SASLHandshakeResponse](r, handshake("PLAIN"))
		if resp := ask[*kmsg.SASLAuthenticateResponse](r, token("\x00alice\x00alice-secret")); resp.ErrorCode != 0 {
			t.Fatalf("SaslAuthenticate = error %d", resp.ErrorCode)
		}
		return r
	}
	long := token("\x00alice\x00" + strings.Repeat("x", 2000))
	r := authenticated()
	if resp := ask[*kmsg.SASLAuthenticateResponse](r, long); resp.ErrorCode != 34 {
		t.Errorf("a long request of an authenticated client = error %d, want 34", resp.ErrorCode)
	}
	ask[*kmsg.SASLHandshakeResponse](r, handshake("PLAIN"))
	r.request(long)
	r.closed("a long token of a re-authentication")

	r = authenticated()
	ask[*kmsg.SASLHandshakeResponse](r, handshake("PLAIN"))
	if resp := ask[*kmsg.SASLAuthenticateResponse](r, token("\x00alice\x00alice-secret")); resp.ErrorCode != 0 {
		t.Fatalf("re-authentication = error %d", resp.ErrorCode)
	}
	if resp := ask[*kmsg.SASLAuthenticateResponse](r, long); resp.ErrorCode != 34 {
		t.Errorf("a long request of a re-authenticated client = error %d, want 34", resp.ErrorCode)
	}
}
