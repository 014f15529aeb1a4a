package replica

import (
	"bytes"
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/backoff"
)

// sources are this peer's subnets that other peers follow, and the links to those peers.
type sources struct {
	cfg   *Config
	locks *subnetLocks

	mu         sync.Mutex // never held during I/O
	subnets    map[netip.Prefix]*source
	links      map[peer.ID]*ownerLink
	witnessSet []byte // this peer's

	linkAdded backoff.Wake
}

// run keeps the links, and updates and trims the logs, until ctx ends.
func (s *sources) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { s.runWatch(ctx) })
	for {
		for _, l := range s.newLinks() {
			wg.Go(func() { l.run(ctx) })
		}
		select {
		case <-ctx.Done():
			return
		case <-s.linkAdded:
		}
	}
}

// SetWitnessSet sends this peer's witness set, sealed, to all replicas.
func (s *sources) SetWitnessSet(sealed []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(sealed) == 0 || bytes.Equal(sealed, s.witnessSet) {
		return
	}
	s.witnessSet = sealed
	for _, l := range s.links {
		l.newWitnessSet = true
		l.wakeup.Signal()
	}
}

// newLinks returns the links that have not been started, and marks them as started.
func (s *sources) newLinks() []*ownerLink {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ls []*ownerLink
	for _, l := range s.links {
		if !l.running {
			l.running = true
			ls = append(ls, l)
		}
	}
	return ls
}

// runWatch queues the followers of logs that have grown, and trims logs, until ctx ends.
func (s *sources) runWatch(ctx context.Context) {
	trim := time.NewTicker(max(time.Second, s.cfg.BatchDelay))
	defer trim.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-trim.C:
			s.trim()
			continue
		case <-s.cfg.DB.LogChanged():
		}
		if backoff.Sleep(ctx, s.cfg.BatchDelay) != nil {
			return
		}
		s.queueGrown()
	}
}

// queueGrown queues the followers of subnets that have changed.
func (s *sources) queueGrown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, src := range s.subnets {
		if len(src.followers) == 0 {
			continue
		}
		head, _, ok := s.cfg.DB.LogHead(src.prefix) // if there is none, the sender starts one
		for _, f := range src.followers {
			if f.state == stateLog && (!ok || head.Log != f.sent.Log || head.Seq > f.sent.Seq) {
				f.link.queue(f, false)
			}
		}
	}
}
