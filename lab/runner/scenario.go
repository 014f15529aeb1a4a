package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"peerd/node/admin"
)

const (
	// maxSilent is the number of successive looks that a machine may not answer.
	maxSilent = 3
	// idleLooks is the number of successive looks without work after which a crawl is over.
	idleLooks = 3
	// stepWait is the part of the time limit of a step for which the next one waits for its end: it
	// may not end because a machine hangs.
	stepWait = 6
)

// crawl follows the scenario until the time is over or nothing is left to do. Nothing waits for a
// machine that hangs: steps and looks run beside each other, one at a time for each machine.
func (r *runner) crawl(ctx context.Context) error {
	if !r.p.Ended.IsZero() {
		return nil
	}
	var g errgroup.Group
	end, err := r.follow(ctx, &g)
	_ = g.Wait() // the functions return nil
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		r.change(func() { r.p.Ended, r.p.End = time.Now().UTC(), end })
	}
	return err
}

// follow returns why the crawl is over.
func (r *runner) follow(ctx context.Context, g *errgroup.Group) (string, error) {
	over, look := r.p.Seeded.Add(r.f.For.Duration), time.Now()
	next, idle := 0, 0
	for next < len(r.p.Steps) && r.p.Steps[next].Done { // before a restart of the runner
		next++
	}
	before := make(chan struct{}) // closed at the end of the last step
	close(before)
	for {
		wake := look
		if wake.After(over) {
			wake = over
		}
		at := over
		if next < len(r.p.Steps) {
			at = r.p.Seeded.Add(r.f.Steps[next].At.Duration)
		}
		if at.Before(wake) {
			wake = at
		}
		if err := pause(ctx, time.Until(wake)); err != nil {
			return "", err
		}
		now := time.Now()
		switch {
		case next < len(r.p.Steps) && !now.Before(at):
			select {
			case <-before:
			case <-time.After(r.f.Timeout.Duration / stepWait):
			case <-ctx.Done():
				return "", ctx.Err()
			}
			before = r.step(ctx, next, g)
			next++
			continue
		case !now.Before(over):
			return "the time was over", nil
		case r.count(Running) == 0:
			return ErrNoMachine.Error(), nil
		}
		look = now.Add(r.f.Look.Duration)
		if r.idle() {
			idle++
		} else {
			idle = 0
		}
		if idle >= idleLooks && r.f.Until == "idle" {
			return "no peer had work left", nil
		}
		r.look(ctx, g)
	}
}

// idle prints the progress that the last look has shown, and reports whether all steps are done and
// no peer has work.
func (r *runner) idle() bool {
	running := r.running()
	r.mu.Lock()
	defer r.mu.Unlock()
	var pages, left int64
	silent := 0
	for _, s := range r.seen {
		pages += s.PagesFetched
		left += s.Frontier.Pending + s.Frontier.InFlight + s.Frontier.Unclaimed + s.OutboxURLs
		silent += s.SubnetsSilent
	}
	if len(r.seen) > 0 {
		r.printf("%d of %d peers answered, %d pages were fetched, %d URLs wait, %d copies of "+
			"subnets with silent owners", len(r.seen), running, pages, left, silent)
	}
	return left == 0 && silent == 0 && pages > 0 && len(r.seen) >= running &&
		!slices.ContainsFunc(r.p.Steps, func(s *stepState) bool { return !s.Done })
}

// look asks all peers that should run for their status. It does not wait for the answers, which
// are in r.seen until the next look.
func (r *runner) look(ctx context.Context, g *errgroup.Group) {
	r.mu.Lock()
	clear(r.seen)
	r.mu.Unlock()
	for m := range r.p.Machines {
		select {
		case r.busy[m] <- struct{}{}:
		default:
			continue // the last look or a step has not ended
		}
		g.Go(func() error {
			defer func() { <-r.busy[m] }()
			if peers := r.peersOf(m, Running, Paused); len(peers) > 0 {
				r.lookAt(ctx, m, peers)
			}
			return nil
		})
	}
}

// lookAt is look for one machine. A machine that does not answer several times in a row is left
// out.
func (r *runner) lookAt(ctx context.Context, m int, peers []int) {
	names, numbers := r.namesOf(peers)
	text, err := r.sh(ctx, m, r.patience(m), look(names, numbers))
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		if r.silent[m]++; r.silent[m] == maxSilent {
			r.leaveOut(m, fmt.Errorf("no answer to %d looks: %w", maxSilent, err))
		}
		return
	}
	r.silent[m] = 0
	r.note(m, peers, text)
	for i, answer := range r.answers(m, text) {
		var s admin.Status
		if json.Unmarshal([]byte(answer[1]), &s) != nil || answer[0] != "running" {
			continue
		}
		r.change(func() {
			r.seen[i] = s
			switch p := r.proc(i); {
			case s.Health.State == admin.HealthPaused && p.State == Running:
				p.State = Paused
			case s.Health.State != admin.HealthPaused && p.State == Paused:
				p.State = Running
			}
		})
	}
}

// peersIn returns the peers in some states.
func (r *runner) peersIn(states ...State) (all []int) {
	for m := range r.p.Machines {
		all = append(all, r.peersOf(m, states...)...)
	}
	slices.Sort(all)
	return all
}

// onMachines calls do at once for each machine of some peers, and waits.
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

// step begins a step of the scenario. The peers, and the numbers of their starts, are saved before,
// so that after a restart of the runner nothing is done to others, or twice. The channel is closed
// at the end of the step.
func (r *runner) step(ctx context.Context, i int, g *errgroup.Group) chan struct{} {
	s, state := r.f.Steps[i], r.p.Steps[i]
	if !state.Chosen {
		peers := r.choose(i)
		r.change(func() {
			_, numbers := r.namesOf(peers)
			*state = stepState{Chosen: true, Peers: peers, Starts: numbers, Begun: time.Now().UTC()}
		})
	}
	if s.Do == "mark" {
		r.printf("mark: %s", s.Text)
	} else {
		r.printf("%s: %d peers", s.Do, len(state.Peers))
	}
	done := make(chan struct{})
	g.Go(func() error {
		defer close(done)
		r.onMachines(state.Peers, func(m int, peers []int) {
			r.busy[m] <- struct{}{} // whoever does something there has a time limit
			defer func() { <-r.busy[m] }()
			if r.p.Machines[m].State == LeftOut {
				return
			}
			if err := r.do(ctx, m, s, state, peers); err != nil && ctx.Err() == nil {
				r.leaveOut(m, fmt.Errorf("%s: %w", s.Do, err))
			}
		})
		if ctx.Err() == nil {
			r.change(func() { state.Done = true })
		}
		return nil
	})
	return done
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
