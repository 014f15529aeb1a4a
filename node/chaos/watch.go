package main

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

const (
	stopSignal = syscall.SIGSTOP
	contSignal = syscall.SIGCONT
)

// watch looks at the peers until the script was played and none has work left,
// and says why it ended.
func (s *stage) watch(ctx context.Context, played <-chan struct{}) (outcome string, err error) {
	over, told := false, time.Time{}
	var late time.Time // when to give up
	quiet, hits, moved := 0, 0, time.Now()
	crashed := map[int]bool{}
	err = every(ctx, lookEvery, func() (bool, error) {
		l := s.look(ctx)
		s.crashes(crashed)
		n := s.web.Audit().Requests
		if n != hits {
			hits, moved = n, time.Now()
		}
		if time.Since(told) > tellEvery {
			told = time.Now()
			s.tell(l)
		}
		select {
		case <-played:
			if !over {
				over, late = true, time.Now().Add(s.o.settle)
			}
		default:
			return false, ctx.Err()
		}
		if quiet++; l.left > 0 || len(l.owns) < l.asked {
			quiet = 0
		}
		switch {
		case quiet >= quietLooks:
			outcome = "quiet"
		case time.Since(moved) > stallTime:
			outcome = "stalled"
		case time.Now().After(late):
			outcome = "late"
		}
		return outcome != "", nil
	})
	return outcome, err
}

// look asks all peers that can answer.
func (s *stage) look(ctx context.Context) look {
	l := look{at: time.Now(), owns: map[int][]netip.Prefix{}}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, p := range s.peers {
		if up, _ := p.state(); !up {
			continue
		}
		l.asked++
		wg.Go(func() {
			st, owned, err := p.ask(ctx)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				l.owns[p.i] = owned
				l.left += st.Frontier.Pending + st.Frontier.InFlight + st.Frontier.Nursery + st.OutboxURLs
			}
		})
	}
	wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks = append(s.looks, l)
	return l
}

// held asks all peers what is left.
func (s *stage) held(ctx context.Context) []string {
	var all []string
	for _, p := range s.peers {
		if up, _ := p.state(); up {
			all = append(all, p.held(ctx)...)
		}
	}
	return all[:min(len(all), 2*someOf)]
}

// crashes enters every peer that has ended by itself, once.
func (s *stage) crashes(known map[int]bool) {
	for _, p := range s.peers {
		if _, crashed := p.state(); crashed && !known[p.i] {
			known[p.i] = true
			now := time.Now()
			s.enter(event{step: step{Kind: crash, Peer: p.i}, Begin: now, End: now, Said: p.lastWords()})
		} else if !crashed {
			delete(known, p.i)
		}
	}
}

// tell says how far it is.
func (s *stage) tell(l look) {
	a := s.web.Audit()
	owned := map[netip.Prefix]int{}
	for _, list := range l.owns {
		for _, p := range list {
			owned[p]++
		}
	}
	fmt.Fprintf(s.say, "%6.1f s: %d of %d pages, %d fetches, %d violations; %d of %d peers answer, own %d subnets, %d URLs left\n",
		time.Since(s.begin).Seconds(), a.PagesFetched, a.PagesExpected, a.Fetches, a.Politeness.Violations,
		len(l.owns), len(s.peers), len(owned), l.left)
}
