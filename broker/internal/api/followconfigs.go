package api

import (
	"log/slog"
	"maps"
)

// Changed says that there is a new image of the metadata. It does not wait: broker configs that another broker altered for all
// are put to work soon.
func (s *Server) Changed() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// follow puts configs to work that other brokers have altered, until the server is closed.
func (s *Server) follow() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.changed:
		}
		s.altering.Lock()
		s.catchUp()
		s.altering.Unlock()
	}
}

// catchUp makes the configs in force those of the metadata. The lock of alterations is held. What cannot be used is logged and
// left, as at a start: whoever altered it has other listeners, or other files.
func (s *Server) catchUp() {
	now, next := s.inForce, s.brokerConfigs()
	if now == nil || maps.Equal(now.clusterWide, next.clusterWide) && maps.Equal(now.perBroker, next.perBroker) {
		return
	}
	s.inForce = next
	named := map[string]bool{}
	for name, value := range next.inForce() {
		if was, had := now.inForce()[name]; !had || was != value {
			named[name] = true
		}
	}
	prepared, err := s.prepare(now, next, named)
	if err != nil {
		s.o.Log.Error("broker configs that another broker altered cannot be used here", slog.Any("error", err))
		return
	}
	prepared.Commit()()
	s.o.Log.Info("took over broker configs that another broker altered")
}
