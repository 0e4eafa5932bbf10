package metadata

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close() = %v", err)
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
	dir := filepath.Join(t.TempDir(), "metadata")
	s := open(t, Options{Dir: dir, NodeID: 3})
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			name, value := fmt.Sprint("key", i), fmt.Sprint(i)
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
	dir := t.TempDir()
	open(t, Options{Dir: dir})
	if _, err := Open(t.Context(), Options{Dir: dir}); !errors.Is(err, ErrInUse) {
		t.Errorf("Open() of a folder in use = %v, want %v", err, ErrInUse)
	}
}

func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		s, err := Open(context.Background(), Options{Dir: dir})
		if err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}

func BenchmarkAppend(b *testing.B) {
	s := open(b, Options{Dir: b.TempDir()})
	for b.Loop() {
		if err := s.Append(context.Background(), alice()); err != nil {
			b.Fatal(err)
		}
	}
}
