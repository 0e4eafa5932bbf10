package network

import (
	"strings"
	"sync/atomic"
	"testing"
)

func TestAFencedServerTakesNobodyNewAndGoesOnWithWhoIsThere(t *testing.T) {
	var fenced atomic.Bool
	s := serve(t, &echo{}, Listener{Name: "CLIENTS"}, func(o *Options) {
		o.Fenced = func(listener string) bool { return fenced.Load() && listener == "CLIENTS" }
	})
	served := s.dial(t)
	roundTrip(t, served, []byte("before"))
	fenced.Store(true)
	wantEnd(t, s.dial(t), "")
	s.wantClosed(t, ReasonFenced, 1)
	roundTrip(t, served, []byte("still here"))
	if n := s.counts(); n.Refused != 1 || n.Established != 1 {
		t.Errorf("counts = %+v, want one refused and one established", n)
	}
	if all, _, _ := s.ClosedConnections(0); len(all) != 1 || all[0].Reason != ReasonFenced || !all[0].Refused {
		t.Errorf("remembered = %+v, want the refused socket", all)
	}
	eventually(t, func() bool { return strings.Contains(s.log.String(), "reason=fenced") }, "the log to say why")
	fenced.Store(false)
	roundTrip(t, s.dial(t), []byte("after"))
}
