package broker_test

import (
	"errors"
	"os"
	"testing"
	"time"
)

// mustServe fails unless the broker answers, to a request that may have been sent before.
func mustServe(r *raw, what string) {
	r.t.Helper()
	r.request(versionsRequest(3))
	mustAnswer(r, what)
}

func mustAnswer(r *raw, what string) {
	r.t.Helper()
	if _, err := r.answer(false); err != nil {
		r.t.Fatalf("%s: %v, want it served", what, err)
	}
}

// mustWait sends a request and fails unless the connection stays open and silent; the answer is still to come. Who is
// served is answered in far less time, and more time fails nobody.
func mustWait(r *raw, what string) {
	r.t.Helper()
	r.request(versionsRequest(3))
	mustStayWaiting(r, what)
}

func mustStayWaiting(r *raw, what string) {
	r.t.Helper()
	const silence = 300 * time.Millisecond
	if err := r.conn.SetReadDeadline(time.Now().Add(silence)); err != nil {
		r.t.Fatal(err)
	}
	n, err := r.conn.Read(make([]byte, 1))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		r.t.Fatalf("%s: read %d bytes, %v, want silence", what, n, err)
	}
	if err := r.conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		r.t.Fatal(err)
	}
}

func TestOneConnectionMoreThanMaxConnectionsWaitsForTheEndOfAnother(t *testing.T) {
	t.Parallel()
	b := start(t, load(t, "listeners=PLAINTEXT://127.0.0.1:0\nmax.connections=2\n"))
	first, second := dial(t, b.Addr("PLAINTEXT")), dial(t, b.Addr("PLAINTEXT"))
	mustServe(first, "the first")
	mustServe(second, "the second")
	third := dial(t, b.Addr("PLAINTEXT"))
	mustWait(third, "the third")
	first.close()
	mustAnswer(third, "the third, once the first is gone")
	mustServe(second, "the second")
}
