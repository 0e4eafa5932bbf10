package engine

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"testing"
	"time"
)

// Large answers are waited for in large parts, and small ones behind them at once, however either arrives.
func TestAnswersAreReadWholeHoweverTheyArrive(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	random := rand.New(rand.NewPCG(3, 4))
	var answers [][]byte
	var stream []byte
	for _, size := range []int{10, wakeEvery - 1, wakeEvery, wakeEvery + 1, 4, 3 << 20, 100, 1<<20 + 7, 1 << 20, 5} {
		answer := make([]byte, size)
		for i := range answer {
			answer[i] = byte(random.Uint32())
		}
		answers = append(answers, answer)
		stream = append(binary.BigEndian.AppendUint32(stream, uint32(size)), answer...)
	}
	go func() {
		far, acceptErr := l.Accept()
		if acceptErr != nil {
			return
		}
		for len(stream) > 0 {
			n := min(1+random.IntN(200_000), len(stream))
			if _, writeErr := far.Write(stream[:n]); writeErr != nil {
				return
			}
			stream = stream[n:]
			<-time.After(time.Duration(random.IntN(2000)) * time.Microsecond) // so that it comes in parts
		}
		t.Cleanup(func() { _ = far.Close() }) // it stays open: no end wakes who waits for too much
	}()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	if err := near.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	c := newRemoteConn(near, "")
	for _, want := range answers {
		got, err := c.receive()
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("receive = %d bytes, %v, want the %d that were sent", len(got), err, len(want))
		}
	}
}
