package chaos

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

// watch polls the peers until the script has ended and no peer has work left, and returns the
// outcome.
func (s *scenarioRun) watch(
	ctx context.Context, played <-chan struct{},
) (outcome string, err error) {
	over, told := false, time.Time{}
	var late time.Time // deadline
	quiet, hits, moved := 0, 0, time.Now()
	crashed := map[int]bool{}
	err = poll(ctx, lookInterval, func() (bool, error) {
		l := s.look(ctx)
		s.crashes(crashed)
		n := s.web.Audit().Requests
		if n != hits {
			hits, moved = n, time.Now()
		}
		if time.Since(told) > progressInterval {
			told = time.Now()
			s.printProgress(l)
		}
		select {
		case <-played:
			if !over {
				over, late = true, time.Now().Add(s.o.Settle)
			}
		default:
			return false, ctx.Err()
		}
		if quiet++; l.left > 0 || len(l.owns) < l.asked {
			quiet = 0
		}
		switch {
		case quiet >= idleLooks:
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

// look polls all running peers.
func (s *scenarioRun) look(ctx context.Context) look {
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
				l.left += st.Frontier.Pending + st.Frontier.InFlight + st.Frontier.Unclaimed +
					st.OutboxURLs
			}
		})
	}
	wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks = append(s.looks, l)
	return l
}

// held describes the URLs that are left at all peers.
func (s *scenarioRun) held(ctx context.Context) []string {
	var all []string
	for _, p := range s.peers {
		if up, _ := p.state(); up {
			all = append(all, p.held(ctx)...)
		}
	}
	return all[:min(len(all), 2*someOf)]
}

// crashes records each unexpected exit of a peer once.
func (s *scenarioRun) crashes(known map[int]bool) {
	for _, p := range s.peers {
		if _, crashed := p.state(); crashed && !known[p.i] {
			known[p.i] = true
			now := time.Now()
			s.record(event{step: step{Kind: crash, Peer: p.i}, Begin: now, End: now,
				Output: p.lastLogLines()})
		} else if !crashed {
			delete(known, p.i)
		}
	}
}

// printProgress writes a line of progress.
func (s *scenarioRun) printProgress(l look) {
	a := s.web.Audit()
	owned := map[netip.Prefix]int{}
	for _, list := range l.owns {
		for _, p := range list {
			owned[p]++
		}
	}
	fmt.Fprintf(s.progress,
		"%6.1f s: %d of %d pages, %d fetches, %d violations; %d of %d peers answer, own %d "+
			"subnets, %d URLs left\n",
		time.Since(s.begin).Seconds(), a.PagesFetched, a.PagesExpected, a.Fetches,
		a.Politeness.Violations,
		len(l.owns), len(s.peers), len(owned), l.left)
}
