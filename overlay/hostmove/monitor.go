package hostmove

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"peerd/internal/backoff"
	"peerd/internal/lru"
)

const (
	// maxSuspects bounds the hosts that are monitored.
	maxSuspects = 4096
	// tasksAtOnce is how many look-ups, and how many moves, are under way at once.
	tasksAtOnce = 4
	// maxSighted bounds the hosts of which it is remembered that our resolver returned an
	// address in their home.
	maxSighted = 1 << 16
	// taskTimeout bounds a look-up, and each step of a move but the transfer of the host.
	taskTimeout = time.Minute
)

// Monitor tracks the hosts that move from or to a peer. Its methods except Attach are
// safe for concurrent use.
type Monitor struct {
	cfg      Config
	log      *slog.Logger
	frontier Frontier // nil: hosts stay where they are

	mu       sync.Mutex
	suspects map[string]bool // to be looked up; true if its server is silent
	looking  map[string]bool
	absent   map[string]*absence
	moves    map[string]*move
	arriving map[string]bool
	adding   map[string]int // calls of Add under way
	sighted  *lru.Simple[string, struct{}]
	settled  map[string]*settled
	reading  bool // homes are being read again

	kick backoff.Wake
}

// New returns a Monitor, or all that is wrong with cfg. It starts nothing.
func New(cfg Config) (*Monitor, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.Pace = cfg.Pace.withDefaults()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Monitor{
		cfg: cfg, log: cfg.Logger, suspects: map[string]bool{}, looking: map[string]bool{},
		absent: map[string]*absence{}, moves: map[string]*move{}, arriving: map[string]bool{},
		adding:  map[string]int{},
		sighted: lru.NewSimple[string, struct{}](maxSighted, nil),
		settled: map[string]*settled{}, kick: backoff.NewWake(),
	}, nil
}

// Attach gives the Monitor its frontier and takes up the moves that a restart has cut
// short. It comes before Run; without it, or after an error, which is one of the
// store, hosts stay where they are.
func (w *Monitor) Attach(f Frontier) error {
	w.frontier = f
	return w.loadMoves()
}

// Run looks hosts up, moves them, and reads homes again, until ctx ends and all of
// that has stopped. The error is nil.
func (w *Monitor) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := time.NewTicker(w.cfg.Tick)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		case <-w.kick:
		}
		for _, task := range w.due(time.Now()) {
			wg.Go(func() { task(ctx) })
		}
	}
}

// due returns what is to be done now.
func (w *Monitor) due(now time.Time) (tasks []func(context.Context)) {
	if w.frontier == nil || !w.cfg.Network.Online() {
		return nil
	}
	return append(append(w.toLook(now), w.toDepart(now)...), w.toRead(now)...)
}

func (w *Monitor) wake() { w.kick.Signal() }

// Suspect reports that the server of a host of ours does not answer: it may have moved.
func (w *Monitor) Suspect(host string) {
	w.mu.Lock()
	if len(w.suspects) < maxSuspects {
		w.suspects[host] = true
	}
	w.mu.Unlock()
	w.wake()
}

// Lost watches a host without address in its home that is in no frontier: it was
// settled there when its name was another. sealed is nil if the home is ours, else
// the last lease of its silent owner.
func (w *Monitor) Lost(host string, home netip.Prefix, sealed []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.absent[host] == nil && len(w.absent) < maxSuspects {
		a := newAbsence(home, time.Now())
		a.cause, a.lease = silent, sealed
		w.absent[host] = a
		w.wake()
	}
}

// InTransit reports whether a host is on its way to or from here.
func (w *Monitor) InTransit(host string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.moves[host] != nil || w.arriving[host]
}

// Add calls add, which puts a host into the frontier, unless the host is in transit; then ok is
// false. No move of the host begins meanwhile.
func (w *Monitor) Add(host string, add func() error) (ok bool, err error) {
	w.mu.Lock()
	if w.moves[host] != nil || w.arriving[host] {
		w.mu.Unlock()
		return false, nil
	}
	w.adding[host]++
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.adding[host]--; w.adding[host] == 0 {
			delete(w.adding, host)
		}
	}()
	return true, add()
}

// Moving returns how many hosts are on their way to or from here: their URLs are in no frontier.
func (w *Monitor) Moving() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.moves) + len(w.arriving)
}

// live says whether a subnet is ours.
func (w *Monitor) live(p netip.Prefix) bool {
	_, ours := w.cfg.Subnets.Lease(p)
	return ours
}
