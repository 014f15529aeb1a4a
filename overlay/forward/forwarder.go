package forward

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/store"
)

var (
	// ErrGone is wrapped by a Resolver's error for a host that does not exist
	// or must not be crawled: its URLs are dropped, counted as failed.
	ErrGone = errors.New("forward: no such host")
	// ErrUnresolved is wrapped by a Resolver's error when nobody could tell
	// the host's address just now. After Config.NameTries of them the host
	// counts as gone. Any other error is tried again for ever.
	ErrUnresolved = errors.New("forward: the host's name cannot be looked up now")
)

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

// Resolver finds the owner of a host; given by owner.Manager. Its methods are
// called by many goroutines at once.
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
	// returns how many it moved; more says that it did not move all. An error
	// says that the host cannot take URLs now.
	Enqueue(host string) (moved int, more bool, err error)
	// Route stores URLs that another peer sent.
	Route(found []store.Pending) error
}

// Forwarder owns the put-aside URLs. Its methods may be called at once; Run
// must be running for anything to move.
type Forwarder struct {
	cfg  Config
	log  *slog.Logger
	sent *lru.Cache[store.Digest, struct{}]
	gate gate

	mu      sync.Mutex // never held during I/O
	book    *book
	running [kinds]int
	changed chan struct{}
}

// New loads what waits in the store. It starts nothing. It fails with what
// Validate says, or what the store says.
func New(cfg Config) (*Forwarder, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.NameTries == 0 {
		cfg.NameTries = DefaultNameTries
	}
	sent, err := lru.New[store.Digest, struct{}](1 << 17)
	if err != nil {
		return nil, fmt.Errorf("forward: %w", err)
	}
	f := &Forwarder{
		cfg: cfg, log: cfg.Logger, sent: sent, gate: newGate(), book: newBook(cfg), changed: make(chan struct{}, 1),
	}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	err = cfg.DB.View(func(tx *store.Tx) error {
		now := time.Now()
		all, err := tx.DeferredHosts()
		for _, d := range all {
			f.book.add(d.Host, d.Count, d.Oldest, now)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("forward: %w", err)
	}
	return f, nil
}

// Deferred is told that URLs were put aside in the store, by host. It must be
// called after each such transaction, and may be late.
func (f *Forwarder) Deferred(byHost map[string]int) {
	now := time.Now()
	f.with(func(b *book) {
		for h, n := range byHost {
			b.add(h, n, now, now)
		}
	})
	f.wake()
}

// Sent says whether u was handed to its owner lately.
func (f *Forwarder) Sent(u store.URL) bool { return f.sent.Contains(u.Digest()) }

// Reconsider makes the hosts of a subnet be resolved anew, because its owner
// has changed.
func (f *Forwarder) Reconsider(subnet netip.Prefix) {
	f.with(func(b *book) { b.reconsider(subnet, time.Now()) })
	f.wake()
}

// Stats are the sums of a Forwarder, in URLs.
type Stats struct{ Outbox, Nursery int64 }

// Stats returns the sums. It is cheap.
func (f *Forwarder) Stats() (s Stats) {
	f.with(func(b *book) { s = Stats{Outbox: b.total - b.nursed, Nursery: b.nursed} })
	return s
}

// Row is one host that waits.
type Row struct {
	Host   string
	State  string // unresolved, outbox or nursery
	Subnet netip.Prefix
	Owner  peer.ID
	Count  int
	At     time.Time // when something is due; zero while it is being done
}

// Rows returns a row a host, by name.
func (f *Forwarder) Rows() []Row {
	var rows []Row
	f.with(func(b *book) {
		for _, e := range b.hosts {
			if e.count > 0 {
				rows = append(rows, e.row())
			}
		}
	})
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Compare(a.Host, b.Host) })
	return rows
}

func (e *entry) row() Row {
	r := Row{Host: e.name, State: "unresolved", Count: e.count}
	switch e.state {
	case foreign:
		r.State, r.Subnet, r.Owner = "outbox", e.res.Subnet, e.res.Owner
	case nursery:
		r.State, r.Subnet = "nursery", e.res.Subnet
	case unresolved:
		r.At = e.at
	}
	if e.lot != nil && e.lot.line != nil {
		r.At = e.lot.at
	}
	return r
}

func (f *Forwarder) with(fn func(*book)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn(f.book)
}

func (f *Forwarder) wake() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// The kinds of work, each with places of its own: names that nobody answers
// for hold up no batch, and owners that do not answer no others.
const (
	names = iota
	batches
	retries
	claims
	kinds
)

// places is how much of each kind may be under way.
var places = [kinds]int{names: 32, batches: 24, retries: 8, claims: 16}

// task is one piece of work that is due. Its error is one of the store.
type task struct {
	kind int
	run  func(context.Context) error
}

// Run moves URLs until ctx ends, and returns when all that it started has
// ended. An error is one of the store, and final.
func (f *Forwarder) Run(ctx context.Context) error {
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for work.Err() == nil {
		tasks, next := f.due(time.Now())
		for _, t := range tasks {
			wg.Go(func() {
				err := t.run(work)
				f.mu.Lock()
				f.running[t.kind]--
				f.mu.Unlock()
				if err != nil && work.Err() == nil {
					cancel(fmt.Errorf("forward: %w", err))
				}
				f.wake()
			})
		}
		f.sleep(work, next)
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(work)
}

// sleep returns after d, when something has changed, or when ctx ends.
func (f *Forwarder) sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-f.changed:
	case <-t.C:
	}
}

// due returns what is to be done now, as far as there are places, having
// marked it as begun, and how long nothing else will be due.
func (f *Forwarder) due(now time.Time) (tasks []task, next time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	begin := func(kind int, take func() func(context.Context) error) {
		for f.running[kind] < places[kind] {
			run := take()
			if run == nil {
				return
			}
			f.running[kind]++
			tasks = append(tasks, task{kind, run})
		}
	}
	begin(names, func() func(context.Context) error {
		e := f.book.lookup(now)
		if e == nil {
			return nil
		}
		return func(ctx context.Context) error { return f.resolve(ctx, e) }
	})
	for kind, line := range map[int]*timeline[*lot]{batches: &f.book.batches, retries: &f.book.retries} {
		begin(kind, func() func(context.Context) error {
			p, ok := f.book.parcel(line, now)
			if !ok {
				return nil
			}
			return func(ctx context.Context) error { return f.send(ctx, p) }
		})
	}
	begin(claims, func() func(context.Context) error {
		p, ok := f.book.claim(now)
		if !ok {
			return nil
		}
		return func(ctx context.Context) error { f.claim(ctx, p); return nil }
	})
	f.book.tidy(now)
	free := func(kind int) bool { return f.running[kind] < places[kind] }
	return tasks, f.book.until(now, free(names), free(batches), free(retries), free(claims))
}
