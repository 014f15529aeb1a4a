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
	// Refresh reads anew who owns a subnet, whatever is remembered, because its
	// owner does not answer. It says whether that is another one than owner; then
	// Resolve knows.
	Refresh(ctx context.Context, subnet netip.Prefix, owner peer.ID) (changed bool, err error)
	// Elsewhere says that the home of a host is known, by a record that was read
	// just now, to be neither that subnet of ours nor another one of ours.
	Elsewhere(host string, subnet netip.Prefix) bool
	// Astray reads the home of a host anew, because the owner of what was taken for
	// it says that it is another.
	Astray(ctx context.Context, host string) error
	// Alive says whether names can be looked up at all just now: false when names
	// that are known to exist cannot.
	Alive(ctx context.Context) bool
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
	gone *lru.Cache[store.Digest, time.Time] // dropped lately
	gate gate

	mu      sync.Mutex // never held during I/O
	book    *book
	running [kinds]int
	full    fullness
	changed chan struct{}
}

// New loads what waits in the store. It starts nothing. It fails with what
// Validate says, or what the store says.
func New(cfg Config) (*Forwarder, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.RefreshRate == 0 {
		cfg.RefreshRate = DefaultRefreshRate
	}
	if cfg.NameTries == 0 {
		cfg.NameTries = DefaultNameTries
	}
	sent, err := lru.New[store.Digest, struct{}](1 << 17)
	if err != nil {
		return nil, fmt.Errorf("forward: %w", err)
	}
	gone, err := lru.New[store.Digest, time.Time](1 << 14)
	if err != nil {
		return nil, fmt.Errorf("forward: %w", err)
	}
	f := &Forwarder{
		cfg: cfg, log: cfg.Logger, sent: sent, gone: gone, gate: newGate(), book: newBook(cfg), changed: make(chan struct{}, 1),
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

// Crowded says that more URLs wait than Config.MaxWaiting: who finds more should
// rest until some have gone. It is true until there is a tenth of room again.
func (f *Forwarder) Crowded() (crowded bool) {
	f.with(func(b *book) { crowded = b.crowded })
	return crowded
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

// Run moves URLs until ctx ends, and returns when all that it started has
// ended. An error is one of the store, and final. A store without room is none:
// then nothing is moved until there is some (full.go).
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
				if err = f.stall(err); err != nil && work.Err() == nil {
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
