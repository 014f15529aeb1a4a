package forward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"peerd/store"
)

// ErrGone is returned by a Resolver for a host that does not exist or must not
// be crawled: its URLs are dropped, counted as failed.
var ErrGone = errors.New("forward: no such host")

// Kind says whose a host is.
type Kind uint8

// The kinds of a Resolution.
const (
	Own     Kind = iota + 1 // it is in our frontier now
	Foreign                 // Owner takes its URLs
	Unowned                 // nobody owns Subnet
)

// Resolution is the answer to "whose is this host?".
type Resolution struct {
	Kind   Kind
	Subnet netip.Prefix
	Addr   netip.Addr
	Owner  peer.ID
}

// Resolver finds the owner of a host; given by owner.Manager.
type Resolver interface {
	Resolve(ctx context.Context, host string, hint netip.Addr) (Resolution, error)
	// Claim tries to make this peer the owner of an unowned subnet. When it
	// returns nil the subnet has an owner.
	Claim(ctx context.Context, subnet netip.Prefix) error
	// Receive says whether this peer takes URLs of a subnet now: accepted,
	// moving, or else the lease of who does, if known.
	Receive(subnet netip.Prefix) (ok, moving bool, lease []byte)
	// Learn takes in a lease that another peer sent.
	Learn(sealed []byte)
}

// Sink is where URLs go that this peer is to crawl; given by room crawl.
type Sink interface {
	// Enqueue moves what is put aside for one of our hosts into its queue. It
	// returns how many it moved; more says that it did not move all.
	Enqueue(host string) (moved int, more bool, err error)
	// Route stores URLs that another peer sent.
	Route(found []store.Pending) error
}

// Config says what a Forwarder works with.
type Config struct {
	DB       *store.DB
	Host     host.Host
	Protocol protocol.ID
	Resolver Resolver
	Sink     Sink
	Check    func(store.URL) error
	// MaxURLs and MaxAge: a batch leaves when it has so many URLs, or its
	// oldest one is so old (Malet 2009: 1,000 URLs, 5 s).
	MaxURLs int
	MaxAge  time.Duration
	// NurseryURLs and NurseryAge: an unowned subnet is claimed when so many
	// URLs wait for it, or the oldest so long.
	NurseryURLs int
	NurseryAge  time.Duration
	// Retry is the wait after a failure; it doubles up to MaxRetry.
	Retry, MaxRetry time.Duration
	Logger          *slog.Logger
}

// state is what is known of a foreign host.
type state uint8

const (
	unresolved state = iota
	working          // a goroutine asks or moves
	foreign
	nursery
)

type entry struct {
	name   string
	count  int
	oldest time.Time
	state  state
	res    Resolution
	at     time.Time // not before
	fails  int
}

// target is an entry with its resolution as it was when a batch was due.
type target struct {
	*entry
	res Resolution
}

// Forwarder owns the put-aside URLs. Its methods may be called at once; Run
// must be running for anything to move.
type Forwarder struct {
	cfg  Config
	log  *slog.Logger
	sent *lru.Cache[store.Digest, struct{}]

	mu      sync.Mutex
	hosts   map[string]*entry
	busy    map[peer.ID]bool      // a batch is under way
	pause   map[peer.ID]pauseInfo // after failures
	claims  map[netip.Prefix]bool
	changed chan struct{}
}

type pauseInfo struct {
	until time.Time
	fails int
}

// New loads what waits in the store. It starts nothing.
func New(cfg Config) (*Forwarder, error) {
	sent, err := lru.New[store.Digest, struct{}](1 << 17)
	if err != nil {
		return nil, err
	}
	f := &Forwarder{
		cfg: cfg, log: cfg.Logger, sent: sent, hosts: map[string]*entry{}, busy: map[peer.ID]bool{},
		pause: map[peer.ID]pauseInfo{}, claims: map[netip.Prefix]bool{}, changed: make(chan struct{}, 1),
	}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	err = cfg.DB.View(func(tx *store.Tx) error {
		all, err := tx.DeferredHosts()
		for _, d := range all {
			f.hosts[d.Host] = &entry{name: d.Host, count: d.Count, oldest: d.Oldest}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("forward: %w", err)
	}
	return f, nil
}

// Deferred is told that URLs were put aside in the store.
func (f *Forwarder) Deferred(byHost map[string]int) {
	f.mu.Lock()
	now := time.Now()
	for h, n := range byHost {
		e := f.hosts[h]
		if e == nil {
			e = &entry{name: h, oldest: now}
			f.hosts[h] = e
		}
		if e.count == 0 {
			e.oldest = now
		}
		e.count += n
	}
	f.mu.Unlock()
	f.wake()
}

// Sent says whether u was handed to its owner lately.
func (f *Forwarder) Sent(u store.URL) bool { return f.sent.Contains(u.Digest()) }

// Reconsider makes the hosts of a subnet be resolved anew, because its owner
// has changed.
func (f *Forwarder) Reconsider(subnet netip.Prefix) {
	f.mu.Lock()
	for _, e := range f.hosts {
		if e.res.Subnet == subnet && (e.state == foreign || e.state == nursery) {
			e.state, e.at = unresolved, time.Time{}
		}
	}
	f.mu.Unlock()
	f.wake()
}

// Stats are the sums of a Forwarder, in URLs.
type Stats struct{ Outbox, Nursery int64 }

// Stats returns the sums.
func (f *Forwarder) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	var s Stats
	for _, e := range f.hosts {
		if e.state == nursery {
			s.Nursery += int64(e.count)
		} else {
			s.Outbox += int64(e.count)
		}
	}
	return s
}

// Row is one host that waits.
type Row struct {
	Host   string
	State  string // unresolved, outbox or nursery
	Subnet netip.Prefix
	Owner  peer.ID
	Count  int
	At     time.Time
}

// Rows returns a row a host.
func (f *Forwarder) Rows() []Row {
	f.mu.Lock()
	defer f.mu.Unlock()
	var rows []Row
	for _, e := range f.hosts {
		if e.count == 0 {
			continue
		}
		r := Row{Host: e.name, State: "unresolved", Subnet: e.res.Subnet, Count: e.count, At: e.at}
		switch e.state {
		case foreign:
			r.State, r.Owner = "outbox", e.res.Owner
		case nursery:
			r.State = "nursery"
		}
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b Row) int { return cmpString(a.Host, b.Host) })
	return rows
}

func cmpString(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (f *Forwarder) wake() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// Run moves URLs until ctx ends, and returns when all that it started has
// ended. An error is one of the store, and final.
func (f *Forwarder) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	defer wg.Wait()
	places := make(chan struct{}, 64)
	for ctx.Err() == nil {
		tasks, next := f.due(time.Now(), cap(places)-len(places))
		for _, task := range tasks {
			places <- struct{}{}
			wg.Go(func() {
				err := task(ctx)
				<-places
				if err != nil && ctx.Err() == nil {
					cancel(fmt.Errorf("forward: %w", err))
				}
				f.wake()
			})
		}
		t := time.NewTimer(next)
		select {
		case <-ctx.Done():
		case <-f.changed:
		case <-t.C:
		}
		t.Stop()
	}
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// due returns what is to be done now, at most n tasks, having marked it as
// begun, and how long nothing else will be due.
func (f *Forwarder) due(now time.Time, n int) (tasks []func(context.Context) error, next time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next = time.Minute
	later := func(at time.Time) { next = min(next, max(at.Sub(now), time.Millisecond)) }
	owners := map[peer.ID][]target{}
	subnets := map[netip.Prefix][]*entry{}
	for name, e := range f.hosts {
		if e.count == 0 && e.state != working {
			if e.state != foreign || now.Sub(e.oldest) > time.Hour {
				delete(f.hosts, name)
			}
			continue
		}
		switch e.state {
		case unresolved:
			if e.at.After(now) {
				later(e.at)
			} else if len(tasks) < n {
				e.state = working
				tasks = append(tasks, func(ctx context.Context) error { return f.resolve(ctx, e) })
			}
		case foreign:
			owners[e.res.Owner] = append(owners[e.res.Owner], target{e, e.res})
		case nursery:
			subnets[e.res.Subnet] = append(subnets[e.res.Subnet], e)
		}
	}
	for owner, ts := range owners {
		count, oldest := 0, now
		for _, t := range ts {
			count += t.count
			if t.oldest.Before(oldest) {
				oldest = t.oldest
			}
		}
		at := oldest.Add(f.cfg.MaxAge)
		if count >= f.cfg.MaxURLs {
			at = now
		}
		if p := f.pause[owner].until; p.After(at) {
			at = p
		}
		if at.After(now) {
			later(at)
		} else if !f.busy[owner] && len(tasks) < n {
			f.busy[owner] = true
			tasks = append(tasks, func(ctx context.Context) error { return f.send(ctx, owner, ts) })
		}
	}
	for subnet, es := range subnets {
		count, oldest := 0, now
		for _, e := range es {
			count += e.count
			if e.oldest.Before(oldest) {
				oldest = e.oldest
			}
		}
		at := oldest.Add(f.cfg.NurseryAge)
		if count >= f.cfg.NurseryURLs {
			at = now
		}
		for _, e := range es {
			if e.at.After(at) {
				at = e.at
			}
		}
		if at.After(now) {
			later(at)
		} else if !f.claims[subnet] && len(tasks) < n {
			f.claims[subnet] = true
			tasks = append(tasks, func(ctx context.Context) error { f.claim(ctx, subnet, es); return nil })
		}
	}
	return tasks, next
}

// resolve asks whose a host is, and moves its URLs when it is ours.
func (f *Forwarder) resolve(ctx context.Context, e *entry) error {
	hint, err := f.hint(e.name)
	if err != nil {
		return err
	}
	res, err := f.cfg.Resolver.Resolve(ctx, e.name, hint)
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, ErrGone):
		f.log.Info("the URLs of a host were dropped", "host", e.name, "err", err)
		return f.drop(e)
	case err != nil:
		f.log.Debug("host not resolved", "host", e.name, "err", err)
		f.again(e)
		return nil
	case res.Kind == Own:
		return f.enqueue(e)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	e.res, e.fails, e.at = res, 0, time.Time{}
	e.state = foreign
	if res.Kind == Unowned {
		e.state = nursery
	}
	return nil
}

// again lets a host be resolved once more after a wait.
func (f *Forwarder) again(e *entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e.state, e.at = unresolved, time.Now().Add(f.wait(e.fails))
	e.fails++
}

func (f *Forwarder) wait(fails int) time.Duration {
	return min(f.cfg.Retry<<min(fails, 16), f.cfg.MaxRetry)
}

func (f *Forwarder) hint(name string) (addr netip.Addr, err error) {
	err = f.cfg.DB.View(func(tx *store.Tx) error {
		return tx.Deferred(name, func(p store.Pending) (bool, error) {
			addr = p.Hint
			return false, nil
		})
	})
	return addr, err
}

// enqueue moves what waits for one of our own hosts into its queue.
func (f *Forwarder) enqueue(e *entry) error {
	for {
		moved, more, err := f.cfg.Sink.Enqueue(e.name)
		f.took(e, moved)
		if err != nil {
			f.again(e) // the subnet has left again, or is about to
			return nil
		}
		if !more {
			break
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	e.state, e.fails, e.at = unresolved, 0, time.Time{}
	return nil
}

func (f *Forwarder) took(e *entry, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e.count = max(0, e.count-n)
}

// drop forgets the URLs of a host that does not exist.
func (f *Forwarder) drop(e *entry) error {
	n := 0
	err := f.cfg.DB.Update(func(tx *store.Tx) error {
		n = 0
		var urls []store.URL
		err := tx.Deferred(e.name, func(p store.Pending) (bool, error) {
			urls = append(urls, p.URL)
			return len(urls) < maxBatchURLs, nil
		})
		for _, u := range urls {
			if err == nil {
				n++
				err = tx.Undefer(u)
			}
		}
		tx.Count(store.Counters{Failed: int64(n)})
		return err
	})
	f.took(e, n)
	f.mu.Lock()
	defer f.mu.Unlock()
	e.state = unresolved
	return err
}

// claim tries to have a subnet owned.
func (f *Forwarder) claim(ctx context.Context, subnet netip.Prefix, es []*entry) {
	err := f.cfg.Resolver.Claim(ctx, subnet)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.claims, subnet)
	for _, e := range es {
		if e.state != nursery {
			continue
		}
		if err == nil {
			e.state, e.at, e.fails = unresolved, time.Time{}, 0
			continue
		}
		e.at = time.Now().Add(f.wait(e.fails))
		e.fails++
	}
	if err != nil {
		f.log.Debug("subnet not claimed", "subnet", subnet, "err", err)
	}
}
