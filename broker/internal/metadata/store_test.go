package metadata

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func open(tb testing.TB, o Options) *Store {
	tb.Helper()
	s, err := Open(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("Close() = %v", err)
		}
	})
	return s
}

func alice() SetScram {
	return SetScram{User: "alice", ScramCredential: ScramCredential{
		Mechanism: ScramSHA256, Salt: []byte("salt"), StoredKey: []byte("stored"), ServerKey: []byte("server"), Iterations: 4096,
	}}
}

func TestAppendIsInTheImageWhenItReturns(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	if err := s.Append(t.Context(), alice()); err != nil {
		t.Fatal(err)
	}
	got, ok := s.Image().Scram("alice", ScramSHA256)
	if !ok || got.Iterations != 4096 || string(got.StoredKey) != "stored" {
		t.Errorf("Scram(alice) = %+v, %v", got, ok)
	}
}

func TestRestartBringsBackEveryAcknowledgedChange(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "metadata")
	s := open(t, Options{Dir: dir, NodeID: 3})
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			name, value := "key"+strconv.Itoa(i), strconv.Itoa(i)
			if err := s.Append(t.Context(), SetConfig{Resource: Resource{Type: ResourceBroker}, Name: name, Value: &value}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	want, id := s.Image(), s.Image().ClusterID()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, Options{Dir: dir, NodeID: 3})
	got := again.Image()
	if len(got.Configs(Resource{Type: ResourceBroker})) != 100 || got.Offset() != want.Offset() || got.ClusterID() != id {
		t.Errorf("after restart: %d configs at offset %d of cluster %s, want 100 at %d of %s",
			len(got.Configs(Resource{Type: ResourceBroker})), got.Offset(), got.ClusterID(), want.Offset(), id)
	}
}

func TestFolderIsForOneStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, Options{Dir: dir})
	if _, err := Open(t.Context(), Options{Dir: dir}); !errors.Is(err, ErrInUse) {
		t.Errorf("Open() of a folder in use = %v, want %v", err, ErrInUse)
	}
}

func TestLogOfAnotherClusterIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Options{Dir: dir, ClusterID: "ours"})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Dir: dir, ClusterID: "theirs"}); err == nil {
		t.Error("Open() with another cluster id succeeds")
	}
	if id := open(t, Options{Dir: dir}).Image().ClusterID(); id != "ours" {
		t.Errorf("ClusterID() = %q, want ours", id)
	}
}

func TestNewLogBeginsAsToldAndOnlyOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 2 {
		s := open(t, Options{Dir: dir, Bootstrap: []Record{SetFeature{Name: MetadataVersion, Level: 20}}})
		if got := s.Image().Feature(MetadataVersion); got != 20 || s.Image().Offset() != 1 {
			t.Errorf("metadata.version = %d after %d entries, want 20 after 1", got, s.Image().Offset())
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := open(t, Options{}).Image().Feature(MetadataVersion); got != newClusterLevel {
		t.Errorf("metadata.version of a new cluster = %d, want %d", got, newClusterLevel)
	}
}

func TestWaitingChangesShareABatch(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	const appenders = 200
	var batches atomic.Int64
	release := make(chan struct{})
	s.log.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		s.log.cluster.KeepControl()
		if batches.Add(1) == 1 {
			s.log.cluster.SleepControl(func() { <-release })
		}
		return nil, nil, false
	})
	var wg sync.WaitGroup
	var queued atomic.Int64
	for i := range appenders {
		wg.Go(func() {
			name := strconv.Itoa(i)
			queued.Add(1)
			if err := s.Append(t.Context(), SetConfig{Resource: Resource{Type: ResourceBroker}, Name: name, Value: &name}); err != nil {
				t.Error(err)
			}
		})
	}
	for queued.Load() < appenders || batches.Load() == 0 {
		runtime.Gosched()
	}
	close(release)
	wg.Wait()
	if n := batches.Load(); n > appenders/2 {
		t.Errorf("%d changes took %d batches", appenders, n)
	}
	if n := len(s.Image().Configs(Resource{Type: ResourceBroker})); n != appenders {
		t.Errorf("%d of %d changes applied", n, appenders)
	}
}

func TestUpdateAsksAgainWhenAnotherChangeWon(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	if err := s.Append(t.Context(), alice()); err != nil {
		t.Fatal(err)
	}
	asked := 0
	err := s.Update(t.Context(), func(i *Image) ([]Record, error) {
		asked++
		if asked == 1 { // somebody else removes her between admission and the log
			if err := s.Append(t.Context(), RemoveScram{User: "alice", Mechanism: ScramSHA256}); err != nil {
				t.Fatal(err)
			}
		} else if !slices.Contains(i.Users(), "alice") {
			return nil, errNobody
		}
		return []Record{RemoveScram{User: "alice", Mechanism: ScramSHA256}}, nil
	})
	if !errors.Is(err, errNobody) || asked != 2 {
		t.Errorf("Update() = %v after asking %d times, want %v after 2", err, asked, errNobody)
	}
	err = s.Update(t.Context(), func(*Image) ([]Record, error) {
		return []Record{RemoveScram{User: "alice", Mechanism: ScramSHA256}}, nil
	})
	if !errors.Is(err, ErrNotFound) {
		t.Errorf("Update() that insists = %v, want %v", err, ErrNotFound)
	}
}

var errNobody = errors.New("nobody there")

func TestOfManyRemovalsOneSucceeds(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	if err := s.Append(t.Context(), alice()); err != nil {
		t.Fatal(err)
	}
	var removed atomic.Int64
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			switch err := s.Append(t.Context(), RemoveScram{User: "alice", Mechanism: ScramSHA256}); {
			case err == nil:
				removed.Add(1)
			case !errors.Is(err, ErrNotFound):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := removed.Load(); n != 1 {
		t.Errorf("%d removals succeeded, want 1", n)
	}
}

func TestReadersSeeWholeChangesOnly(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				i := s.Image()
				configs := i.Configs(broker1)
				if configs["a"] != configs["b"] {
					t.Errorf("image %d has a=%q and b=%q", i.Offset(), configs["a"], configs["b"])
				}
				i.Users()
				i.Quotas()
			}
		})
	}
	for n := range 200 {
		value := strconv.Itoa(n)
		user := alice()
		user.User = value
		err := s.Append(t.Context(), SetConfig{broker1, "a", &value}, user, SetQuota{Entity{{EntityUser, &value}}, "q", new(1.0)}, SetConfig{broker1, "b", &value})
		if err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	readers.Wait()
}

func TestClosedStoreAnswers(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Append(ctx, alice()); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("Append() with a cancelled context = %v", err)
	}
	if err := s.Append(t.Context(), SetFeature{Name: "big", Level: 1}, SetConfig{Resource: broker1, Name: strings.Repeat("n", maxEntry)}); !errors.Is(err, ErrInvalid) {
		t.Errorf("Append() of too much = %v, want %v", err, ErrInvalid)
	}
	if err := s.Append(t.Context()); err != nil {
		t.Errorf("Append() of nothing = %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(t.Context(), alice()); !errors.Is(err, ErrClosed) {
		t.Errorf("Append() to a closed store = %v, want %v", err, ErrClosed)
	}
	if s.Image() == nil {
		t.Error("a closed store has no image")
	}
}

func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		s, err := Open(b.Context(), Options{Dir: dir})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	s := open(b, Options{Dir: b.TempDir()})
	for b.Loop() {
		if err := s.Append(b.Context(), alice()); err != nil {
			b.Fatal(err)
		}
	}
}

// A process that was stopped for long has had no answer of its own log in time: it asks again, and does not end for that.
func TestPrivateLogThatDidNotAnswerInTimeIsAskedAgain(t *testing.T) {
	t.Parallel()
	s := open(t, Options{NodeID: 1})
	if err := s.missed(fmt.Errorf("read topic: %w", os.ErrDeadlineExceeded)); err != nil {
		t.Errorf("after no answer in time: %v, want to go on", err)
	}
	if err := s.missed(fmt.Errorf("read topic: %w", kerr.KafkaStorageError)); err == nil {
		t.Error("after a disk that failed: nil, want an end")
	}
	if err := s.Append(within(t), alice()); err != nil {
		t.Error(err)
	}
}
