package broker_test

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/broker/admin/admintest"
	"github.com/brokerlab/brokerlab/broker/internal/metadata"
)

// logText collects what a broker logs.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Before 4.4-IV1 nothing stopped anybody from making a rule whose host has a slash. It matched nobody; a broker of 4.4 takes it
// for a range whatever the level, and says so when it starts.
func TestHostsWithASlashFromAnOldLevelAreRangesAndAreWarnedOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := admintest.Real(t, []string{"listeners=PLAINTEXT://127.0.0.1:0", "log.dirs=" + dir, "metadata.version=4.3"})
	if _, err := kadm.NewClient(client(t, first.Addr("PLAINTEXT"))).CreateTopic(t.Context(), 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	if err := first.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}

	store, err := metadata.Open(t.Context(), metadata.Options{Dir: filepath.Join(dir, "metadata"), NodeID: 1})
	if err != nil {
		t.Fatal(err)
	}
	rule := func(host string) metadata.Record {
		return metadata.AddACL{Ungated: true, Binding: acl.Binding{
			Pattern:   acl.Pattern{Type: acl.Topic, Name: "t", Kind: acl.Literal},
			Principal: "User:ANONYMOUS", Host: host, Operation: acl.Describe, Permission: acl.Allow,
		}}
	}
	if err = store.Append(t.Context(), rule("127.0.0.0/8"), rule("bad/path")); err != nil {
		t.Fatal(err)
	}
	if err = store.Close(); err != nil {
		t.Fatal(err)
	}

	var log logText
	second := admintest.Real(t, []string{
		"listeners=PLAINTEXT://127.0.0.1:0", "log.dirs=" + dir, "authorizer.class.name=" + broker.StandardAuthorizer,
	}, broker.WithLog(slog.New(slog.NewTextHandler(&log, nil))))
	for _, host := range []string{"127.0.0.0/8", "bad/path"} {
		if !strings.Contains(log.String(), "host="+host) {
			t.Errorf("nothing warns of the host %s:\n%s", host, log.String())
		}
	}
	topics, err := kadm.NewClient(client(t, second.Addr("PLAINTEXT"))).ListTopics(t.Context())
	if err != nil || !topics.Has("t") {
		t.Errorf("topics = %v, %v, want t: 127.0.0.0/8 has this client", topics.Names(), err)
	}
}
