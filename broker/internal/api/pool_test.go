package api

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// working is a call that does f.
func working(f func()) *call { return &call{do: func(*call) { f() }} }

func TestThePoolWorksOnNoMoreCallsThanItHasWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPool(3, 0)
		var now atomic.Int64
		gate := make(chan struct{})
		for range 200 { // more than the queue begins with
			p.submit(working(func() {
				now.Add(1)
				<-gate
				now.Add(-1)
			}))
		}
		synctest.Wait()
		if n := now.Load(); n != 3 {
			t.Errorf("%d calls at once, want 3", n)
		}
		if waiting, busy, workers := p.load(); waiting != 197 || busy != 3 || workers != 3 {
			t.Errorf("load = %d waiting, %d busy, %d workers, want 197, 3, 3", waiting, busy, workers)
		}
		p.resize(5)
		synctest.Wait()
		if n := now.Load(); n != 5 {
			t.Errorf("%d calls at once after resize, want 5", n)
		}
		p.resize(1)
		for range 4 {
			gate <- struct{}{}
		}
		synctest.Wait()
		if n := now.Load(); n != 1 {
			t.Errorf("%d calls at once after shrinking, want 1", n)
		}
		close(gate)
		p.close()
		if waiting, busy, _ := p.load(); waiting != 0 || busy != 0 {
			t.Errorf("after close %d wait and %d are busy", waiting, busy)
		}
	})
}

func TestNoMoreCallsAreAdmittedThanMayWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPool(1, 3)
		gate := make(chan struct{})
		var admitted, done atomic.Int64
		for range 10 {
			go func() {
				p.admit(working(func() {
					<-gate
					done.Add(1)
				}))
				admitted.Add(1)
			}()
		}
		for n := range int64(7) {
			synctest.Wait()
			if waiting, busy, _ := p.load(); waiting != 3 || busy != 1 || admitted.Load() != 4+min(n, 6) {
				t.Errorf("after %d calls %d wait and %d are worked on of %d admitted, want 3, 1 and %d", n, waiting, busy, admitted.Load(), 4+n)
			}
			if n < 6 {
				gate <- struct{}{}
			}
		}
		p.submit(working(func() { done.Add(1) })) // which was admitted before
		close(gate)
		p.close()
		if done.Load() != 11 {
			t.Errorf("%d calls are done, want 11", done.Load())
		}
	})
}

func TestAPoolThatIsClosedHoldsUpNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(*testing.T) {
		p := newPool(1, 1)
		gate := make(chan struct{})
		var waits sync.WaitGroup
		for range 10 {
			waits.Go(func() { p.admit(working(func() { <-gate })) })
		}
		synctest.Wait()
		go p.close()
		synctest.Wait()
		close(gate)
		waits.Wait()
	})
}

func TestOneWorkerTakesCallsInTheirOrder(t *testing.T) {
	t.Parallel()
	p := newPool(1, 0)
	var got []int
	gate := make(chan struct{})
	p.submit(working(func() { <-gate }))
	want := make([]int, 0, 500)
	for i := range 500 {
		want = append(want, i)
		p.submit(working(func() { got = append(got, i) }))
	}
	close(gate)
	p.close()
	if !slices.Equal(got, want) {
		t.Errorf("order = %v", got)
	}
	p.submit(working(func() { t.Error("a closed pool works") }))
}

func TestCallsFromManyGoroutinesAreAllDone(t *testing.T) {
	t.Parallel()
	p := newPool(4, 0)
	var done atomic.Int64
	var senders sync.WaitGroup
	for range 8 {
		senders.Go(func() {
			for i := range 500 {
				if i%100 == 0 {
					p.resize(1 + i/100)
				}
				p.submit(working(func() { done.Add(1) }))
			}
		})
	}
	senders.Wait()
	p.close()
	if n := done.Load(); n != 4000 {
		t.Errorf("%d calls were done, want 4000", n)
	}
}

func TestWhatHasAGoroutineOfItsOwnIsBounded(t *testing.T) {
	p := newPool(1, 0)
	defer p.close()
	hold, ended := make(chan struct{}), make(chan struct{})
	if !p.apart(working(func() { <-hold; close(ended) }), mostApart) {
		t.Fatal("the first one is refused")
	}
	if p.apart(working(func() { t.Error("it ran though it was refused") }), 1) {
		t.Error("there is no end to what runs beside the workers")
	}
	close(hold)
	<-ended
	for !p.apart(working(func() {}), 1) { // the room is given back a moment later
		runtime.Gosched()
	}
}
