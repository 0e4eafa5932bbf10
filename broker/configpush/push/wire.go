package push

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/brokerlab/brokerlab/broker/configpush"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

const (
	// apiVersions is the key of ApiVersions, and its version the first one that names the client's software. A broker that
	// does not know that one has no PushConfig either.
	apiVersions        = 18
	apiVersionsVersion = 3

	// correlation is where the hook's correlation ids begin: kgo counts its own from 0 on each connection.
	correlation = 1 << 30

	// maxAnswer bounds what is believed of an answer's length.
	maxAnswer = 1 << 20

	unsupportedVersion = 35
)

// push asks whether the broker takes a push and sends it. It tells whether the push itself was written, wholly or in part;
// the outcome is in r.
func (h *Hook) push(cl *kgo.Client, conn net.Conn, r *Result) (sent bool) {
	timeout := h.config.Timeout
	if timeout <= 0 {
		timeout, _ = cl.OptValue(kgo.RequestTimeoutOverhead).(time.Duration)
	}
	undo, err := bounded(cl.Context(), conn, timeout)
	if err != nil {
		r.Outcome, r.Err = Failed, err
		return false
	}
	defer undo()
	w := wire{conn: conn, format: kmsg.NewRequestFormatter()}
	if id := cl.OptValues(kgo.ClientID); len(id) == 2 && id[1] == true {
		w.format = kmsg.NewRequestFormatter(kmsg.FormatterClientID(id[0].(string))) //nolint:forcetypeassert // kgo says so
	}
	req := protocol.NewPtrPushConfigRequest()
	if h.config.Key != 0 {
		req.SetKey(h.config.Key)
	}
	takes, err := w.takes(cl, req.Key())
	if err != nil {
		r.Outcome, r.Err = Failed, err
		return false
	}
	if !takes {
		r.Outcome = Unsupported
		return false
	}
	req.Configs = configs(r.Entries)
	resp := req.ResponseKind().(*protocol.PushConfigResponse) //nolint:forcetypeassert // the protocol says so
	if err := w.roundTrip(req, resp); err != nil {
		r.Outcome, r.Err = Failed, fmt.Errorf("push the configuration: %w", err)
		return true
	}
	r.Outcome, r.Code = Accepted, resp.ErrorCode
	if resp.ErrorCode != 0 {
		r.Outcome = Refused
	}
	if resp.ErrorMessage != nil {
		r.Message = *resp.ErrorMessage
	}
	return true
}

func configs(entries []configpush.Entry) []protocol.PushConfigRequestConfig {
	all := make([]protocol.PushConfigRequestConfig, len(entries))
	for i := range entries {
		e := &entries[i]
		all[i] = protocol.PushConfigRequestConfig{Key: e.Key, Value: e.Value, Type: e.Type, IsDefault: e.Default}
	}
	return all
}

// wire is a connection that nobody else uses meanwhile.
type wire struct {
	conn   net.Conn
	format *kmsg.RequestFormatter
	sent   int32
}

// takes tells whether the broker lists version 0 of a key. A client that is held to versions of Kafka from before v3 of
// ApiVersions does not ask.
func (w *wire) takes(cl *kgo.Client, key int16) (bool, error) {
	if most, ok := cl.OptValue(kgo.MaxVersions).(*kversion.Versions); ok && most != nil {
		if v, ok := most.LookupMaxKeyVersion(apiVersions); !ok || v < apiVersionsVersion {
			return false, nil
		}
	}
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version = apiVersionsVersion
	if software := cl.OptValues(kgo.SoftwareNameAndVersion); len(software) == 2 {
		req.ClientSoftwareName, _ = software[0].(string)
		req.ClientSoftwareVersion, _ = software[1].(string)
	}
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version = apiVersionsVersion
	if err := w.roundTrip(req, resp); err != nil {
		return false, fmt.Errorf("ask for the broker's versions: %w", err)
	}
	if resp.ErrorCode != 0 {
		return false, nil
	}
	for i := range resp.ApiKeys {
		if k := &resp.ApiKeys[i]; k.ApiKey == key {
			return k.MinVersion <= 0 && k.MaxVersion >= 0, nil
		}
	}
	return false, nil
}

// roundTrip sends req and reads resp, whose version is set.
func (w *wire) roundTrip(req kmsg.Request, resp kmsg.Response) error {
	id := correlation + w.sent
	w.sent++
	if _, err := w.conn.Write(w.format.AppendRequest(nil, req, id)); err != nil {
		return err
	}
	body, err := w.read(id)
	if err != nil {
		return err
	}
	if resp.Key() == apiVersions {
		// Its header has no tags in any version, and to a version that is not known it is a v0.
		if len(body) >= 2 && binary.BigEndian.Uint16(body) == unsupportedVersion {
			resp.SetVersion(0)
		}
		return resp.ReadFrom(body)
	}
	tags := kbin.Reader{Src: body}
	kmsg.SkipTags(&tags)
	if err := tags.Complete(); err != nil {
		return err
	}
	return resp.ReadFrom(tags.Src)
}

// read reads the answer to the request of a correlation id, as far as that id.
func (w *wire) read(id int32) ([]byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(w.conn, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size < 4 || size > maxAnswer {
		return nil, fmt.Errorf("an answer of %d bytes", size)
	}
	if got := int32(binary.BigEndian.Uint32(head[4:])); got != id {
		return nil, fmt.Errorf("correlation id %d answers %d", got, id)
	}
	body := make([]byte, size-4)
	_, err := io.ReadFull(w.conn, body)
	return body, err
}
