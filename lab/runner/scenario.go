package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"peerd/node/admin"
)

const (
	// maxSilent is the number of successive looks that a machine may not answer.
	maxSilent = 3
	// idleLooks is the number of successive looks without work after which a crawl is over.
	idleLooks = 3
)

// crawl follows the scenario until the time is over or nothing is left to do.
func (r *runner) crawl(ctx context.Context) error {
	if !r.p.Ended.IsZero() {
		return nil
	}
	end, look := r.p.Seeded.Add(r.f.For.Duration), time.Now()
	idle := 0
	for {
		step := slices.IndexFunc(r.p.Steps, func(s *stepState) bool { return !s.Done })
		wake := look
		if wake.After(end) {
			wake = end
		}
		if step >= 0 {
			if at := r.p.Seeded.Add(r.f.Steps[step].At.Duration); at.Before(wake) {
				wake = at
			}
		}
		if err := pause(ctx, time.Until(wake)); err != nil {
			return err
		}
		now := time.Now()
		switch {
		case step >= 0 && !now.Before(r.p.Seeded.Add(r.f.Steps[step].At.Duration)):
			if err := r.step(ctx, step); err != nil {
				return err
			}
			continue
		case !now.Before(end):
			r.change(func() { r.p.Ended, r.p.End = now.UTC(), "the time was over" })
			return nil
		}
		look = now.Add(r.f.Look.Duration)
		seen := r.look(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if r.count(Running) == 0 {
			r.change(func() { r.p.Ended, r.p.End = now.UTC(), ErrNoMachine.Error() })
			return nil
		}
		pages, left := r.progress(seen)
		r.printf("%d peers answer, %d pages were fetched, %d URLs wait", len(seen), pages, left)
		if idle++; left > 0 || pages == 0 || len(seen) < r.running() || step >= 0 ||
			r.f.Until != "idle" {
			idle = 0
		}
		if idle == idleLooks {
			r.change(func() { r.p.Ended, r.p.End = now.UTC(), "no peer had work left" })
			return nil
		}
	}
}

// progress returns how many pages were fetched and how many URLs wait.
func (r *runner) progress(seen map[int]admin.Status) (pages, left int64) {
	for _, s := range seen {
		pages += s.PagesFetched
		left += s.Frontier.Pending + s.Frontier.InFlight + s.Frontier.Unclaimed + s.OutboxURLs
	}
	return pages, left
}

// look asks all peers that should run for their status, and returns those of the peers that
// answer. A machine that does not answer several times in a row is left out.
func (r *runner) look(ctx context.Context) map[int]admin.Status {
	var mu sync.Mutex
	seen := map[int]admin.Status{}
	r.onMachines(r.peersIn(Running, Paused), func(m int, peers []int) {
		names, numbers := r.namesOf(peers)
		text, err := r.sh(ctx, m, r.patience(m), look(names, numbers))
		if ctx.Err() != nil {
			return
		}
		if r.silent[m]++; err == nil {
			r.silent[m] = 0
		} else if r.silent[m] == maxSilent {
			r.leaveOut(m, fmt.Errorf("no answer to %d looks: %w", maxSilent, err))
			return
		}
		r.note(m, peers, text)
		for i, answer := range r.answers(m, text) {
			var s admin.Status
			if json.Unmarshal([]byte(answer[1]), &s) != nil || answer[0] != "running" {
				continue
			}
			mu.Lock()
			seen[i] = s
			mu.Unlock()
			r.change(func() {
				switch p := r.proc(i); {
				case s.Health.State == admin.HealthPaused && p.State == Running:
					p.State = Paused
				case s.Health.State != admin.HealthPaused && p.State == Paused:
					p.State = Running
				}
			})
		}
	})
	return seen
}

// peersIn returns the peers in some states on machines that take part.
func (r *runner) peersIn(states ...State) (all []int) {
	for m := range r.p.Machines {
		if r.p.Machines[m].State != LeftOut {
			all = append(all, r.peersOf(m, states...)...)
		}
	}
	slices.Sort(all)
	return all
}

// onMachines calls do at once for each machine of some peers.
func (r *runner) onMachines(peers []int, do func(m int, peers []int)) {
	by := map[int][]int{}
	for _, i := range peers {
		by[r.p.Peers[i].Machine] = append(by[r.p.Peers[i].Machine], i)
	}
	var g errgroup.Group
	for m, of := range by {
		g.Go(func() error {
			do(m, of)
			return nil
		})
	}
	_ = g.Wait() // the functions return nil
}

// choose returns the peers of a step: a share of those that take part, among those to which it can
// be done. The seed decides.
func (r *runner) choose(i int) []int {
	s := r.f.Steps[i]
	if s.Do == "mark" {
		return nil
	}
	all := r.peersIn(Running, Paused, Stopped)
	can := r.peersIn(actions[s.Do]...)
	n := int(math.Round(s.Of / 100 * float64(len(all))))
	rng := rand.New(rand.NewPCG(r.f.Seed, uint64(i)+1))
	rng.Shuffle(len(can), func(a, b int) { can[a], can[b] = can[b], can[a] })
	can = can[:min(n, len(can))]
	slices.Sort(can)
	return can
}

// step does a step of the scenario. The peers, and the numbers of their starts, are saved before,
// so that after a restart of the runner nothing is done to others, or twice.
func (r *runner) step(ctx context.Context, i int) error {
	s, state := r.f.Steps[i], r.p.Steps[i]
	if !state.Chosen {
		peers := r.choose(i)
		_, numbers := r.namesOf(peers)
		r.change(func() {
			*state = stepState{Chosen: true, Peers: peers, Starts: numbers, Begun: time.Now().UTC()}
		})
	}
	if s.Do == "mark" {
		r.printf("mark: %s", s.Text)
	} else {
		r.printf("%s: %d peers", s.Do, len(state.Peers))
	}
	r.onMachines(state.Peers, func(m int, peers []int) {
		if err := r.do(ctx, m, s, state, peers); err != nil && ctx.Err() == nil {
			r.leaveOut(m, fmt.Errorf("%s: %w", s.Do, err))
		}
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.change(func() { state.Done = true })
	return nil
}

// do does a step to some peers of one machine.
func (r *runner) do(ctx context.Context, m int, s Step, state *stepState, peers []int) error {
	var names []string
	var numbers []int
	var again []int // peers that are to be started and were not
	for _, i := range peers {
		before := state.Starts[slices.Index(state.Peers, i)]
		names, numbers = append(names, name(i)), append(numbers, before)
		if p := r.p.Peers[i]; p.Starts == before || p.State == Starting {
			again = append(again, i)
		}
	}
	if s.Do != "start" {
		text, err := r.sh(ctx, m, 2*r.patience(m), act(s, r.f.Timeout.Duration, names, numbers))
		if err != nil {
			return err
		}
		for i, a := range r.answers(m, text) {
			if a[0] == "failed" {
				r.printf("%s: %s: %s", s.Do, name(i), a[1])
			} else if p := r.p.Peers[i]; p.Starts == state.Starts[slices.Index(state.Peers, i)] {
				r.note(m, []int{i}, text)
			}
		}
	}
	if s.Do == "start" || s.Do == "restart" {
		return r.startProcs(ctx, m, again)
	}
	return nil
}
