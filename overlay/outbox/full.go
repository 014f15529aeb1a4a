package outbox

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"peerd/internal/backoff"
	"peerd/store"
)

// space knows whether the store is full.
type space struct {
	cfg    Config
	log    *slog.Logger
	wakeup backoff.Wake // of the Forwarder

	mu      sync.Mutex // never held during I/O
	refused int64      // writes refused since the store became full; 0: it is not
	next    time.Time  // when to probe
}

// fullRetry returns the time between two probes of a full store: ten seconds by default.
func (c Config) fullRetry() time.Duration { return max(c.MaxRetry/3, c.Retry) }

// note handles the error of a task. If the error is that the store is full, delivery and
// receiving are suspended until a probe succeeds, and note returns nil. It returns any other
// error.
func (s *space) note(err error) error {
	if !store.IsNoSpace(err) {
		return err
	}
	s.mu.Lock()
	s.refused++
	s.next = time.Now().Add(s.cfg.fullRetry())
	began := s.refused == 1
	s.mu.Unlock()
	if began {
		s.wakeup.Signal()
		s.log.Error("suspended delivery: store is full", "err", err, "retry_in",
			s.cfg.fullRetry())
	}
	return nil
}

// full reports whether the store was full at the last write, and when to probe it.
func (s *space) full() (next time.Time, full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next, s.refused > 0
}

// probe finds out whether the store has space again.
func (s *space) probe(context.Context) error {
	if err := s.cfg.DB.Probe(); err != nil {
		return err
	}
	s.mu.Lock()
	refused := s.refused
	s.refused = 0
	s.mu.Unlock()
	s.log.Info("resumed delivery: store has space", "refused", refused)
	return nil
}
