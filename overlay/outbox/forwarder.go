package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/backoff"
	"peerd/internal/lru"
	"peerd/internal/order"
	"peerd/store"
)

var (
	// ErrGone is wrapped by errors of a Resolver about a host that must not be crawled. The
	// host's URLs are given up at once.
	ErrGone = errors.New("the host may not be crawled")
)

// Kind says which peer owns a host.
type Kind uint8

// Kinds of a Resolution.
const (
	Own     Kind = iota + 1 // the host is in the frontier of this peer
	Foreign                 // Owner accepts its URLs
	Unowned                 // no peer owns Subnet
)

// Resolution is the result of looking up the owner of a host.
type Resolution struct {
	Kind   Kind
	Subnet netip.Prefix
	Addr   netip.Addr
	Owner  peer.ID
}

// A Resolver looks up the owners of hosts. package owner implements it. Its methods are called
// concurrently.
type Resolver interface {
	// Resolve looks up the owner of a host. hint is an address of the host that a finder has
	// seen; it may be invalid. Errors wrap ErrGone or *NameError where these apply;
	// any other error is retried without limit.
	Resolve(ctx context.Context, host string, hint netip.Addr) (Resolution, error)
	// Claim tries to make this peer the owner of an unowned subnet. If it returns nil, the
	// subnet has an owner.
	Claim(ctx context.Context, subnet netip.Prefix) error
	// Accepts reports whether this peer accepts URLs of a subnet (ok), or does not at the
	// moment because the subnet is being handed over (moving). Otherwise it returns the lease
	// of the owner, if known.
	Accepts(subnet netip.Prefix) (ok, moving bool, lease []byte)
	// Learn handles a lease that another peer sent.
	Learn(sealed []byte)
	// RefreshOwner reads the owner of a subnet again, bypassing caches, because owner does not
	// answer or denied that it is the owner. It reports whether the owner has changed; Resolve
	// then returns the new one.
	RefreshOwner(ctx context.Context, subnet netip.Prefix, owner peer.ID, denied bool) (
		changed bool, err error)
	// HomeElsewhere reports whether a record read recently shows that the home subnet of a host
	// is neither subnet nor another one of this peer.
	HomeElsewhere(host string, subnet netip.Prefix) bool
	// RefreshHome reads the home record of a host again because the owner of the subnet found
	// earlier says that it is not the host's home.
	RefreshHome(ctx context.Context, host string) error
}

// A Node is the rest of this peer. Its methods are called concurrently.
type Node interface {
	// Check returns an error for URLs that no peer of this network sends, and for notices
	// (KindPinged) of hosts that this peer does not crawl.
	Check(u store.URL, kind store.Kind) error
	// Online reports whether this peer's network is up. While it is down, nothing is resolved,
	// claimed or sent, and no failure counts. The caller calls RetryNow when it is up again. It
	// must be fast, and must not call the Forwarder.
	Online() bool
	// Safe is called before a batch is acknowledged, with the subnets of the URLs that were
	// stored and synced. It returns the subnets that must not be acknowledged yet because no
	// replica has their URLs; the sender sends those again.
	Safe(ctx context.Context, subnets []netip.Prefix) (unsafe []netip.Prefix)
	// Enqueue moves pending URLs of a host of this peer into its queue. It returns the number
	// of URLs moved and whether there are more. An error means that the host cannot take URLs
	// at the moment.
	Enqueue(host string) (moved int, more bool, err error)
	// Route stores URLs that another peer sent, in queues or as pending. A page with KindChanged
	// that was fetched before is fetched again.
	Route(found []store.Pending) error
	// SpeaksFor reports whether the site of u names a peer as one that may say which of its pages
	// have changed.
	SpeaksFor(p peer.ID, u store.URL) bool
}

// A Forwarder delivers pending URLs to the owners of their hosts and receives URLs for hosts of
// this peer. Its methods may be called concurrently. Nothing is delivered unless Run is
// running.
type Forwarder struct {
	cfg     Config
	log     *slog.Logger
	sent    *lru.Cache[store.Digest, struct{}]
	dropped *lru.Cache[store.Digest, time.Time] // when
	gate    gate
	finders *finders
	space   space

	mu    sync.Mutex // never held during I/O
	table *hostTable
	// backOnline is when RetryNow was last called: lookups that began before do not count.
	backOnline time.Time
	running    [numKinds]int
	wakeup     backoff.Wake
}

// New returns a Forwarder for the pending URLs in the store. It does nothing until Run is
// called. Errors are those of Config.Validate and of the store.
func New(cfg Config) (*Forwarder, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.RefreshRate = cmp.Or(cfg.RefreshRate, 20)
	cfg.NamePatience = cmp.Or(cfg.NamePatience, 72*time.Hour)
	cfg.NotFoundSpan = cmp.Or(cfg.NotFoundSpan, 6*time.Hour)
	cfg.MaxNameRetry = cmp.Or(cfg.MaxNameRetry, time.Hour)
	f := &Forwarder{
		cfg: cfg, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), gate: newGate(),
		finders: newFinders(),
		sent:    lru.New[store.Digest, struct{}](1 << 17),
		dropped: lru.New[store.Digest, time.Time](1 << 14),
		table:   newHostTable(cfg), wakeup: backoff.NewWake(),
	}
	f.space.cfg, f.space.log, f.space.wakeup = cfg, f.log, f.wakeup
	err := cfg.DB.View(func(tx *store.Tx) error {
		now := time.Now()
		all, err := tx.PendingHosts()
		for _, d := range all {
			f.table.add(d.Host, d.Count, d.Oldest, now)
			f.table.addReceived(d.Host, d.Received)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	return f, nil
}

// PendingAdded reports the number of pending URLs that were added to the store, by host. It
// must be called after each transaction that adds some; the call may be late.
func (f *Forwarder) PendingAdded(byHost map[string]int) {
	now := time.Now()
	f.withTable(func(t *hostTable) {
		for h, n := range byHost {
			t.add(h, n, now, now)
		}
	})
	f.wakeup.Signal()
}

// Sent reports whether u was recently delivered to its owner.
func (f *Forwarder) Sent(u store.URL) bool { return f.sent.Contains(u.Digest()) }

// ResolveAgain makes the Forwarder look up the owners of the hosts of subnet again. It is
// called when the subnet's owner has changed.
func (f *Forwarder) ResolveAgain(subnet netip.Prefix) {
	f.withTable(func(t *hostTable) { t.resolveAgain(subnet, time.Now()) })
	f.wakeup.Signal()
}

// Announced tells the Forwarder that a peer says that it owns a subnet. If URLs wait for another
// peer that does not answer, the owner is read again at once. It is safe to call it with what
// anybody says: the reads count towards Config.RefreshRate.
func (f *Forwarder) Announced(subnet netip.Prefix, owner peer.ID) {
	var doubted bool
	f.withTable(func(t *hostTable) { doubted = t.announced(subnet, owner) })
	if doubted {
		f.wakeup.Signal()
	}
}

// OverLimit reports whether more than Config.MaxPending URLs are pending. The crawler should
// then pause. It remains true until the number has fallen to nine tenths of the limit.
func (f *Forwarder) OverLimit() (over bool) {
	f.withTable(func(t *hostTable) { over = t.overLimit })
	return over
}

// Stats are numbers of pending URLs: those with a known owner or not resolved yet, and those of
// unowned subnets.
type Stats struct{ Outbox, Unclaimed int64 }

// Stats returns the current numbers. It is cheap.
func (f *Forwarder) Stats() (s Stats) {
	f.withTable(func(t *hostTable) {
		s = Stats{Outbox: t.total - t.unclaimedTotal, Unclaimed: t.unclaimedTotal}
	})
	return s
}

// Row describes one host with pending URLs.
type Row struct {
	Host   string
	State  string // unresolved, outbox or unclaimed
	Subnet netip.Prefix
	Owner  peer.ID
	Count  int
}

// Rows returns one Row per host, sorted by name.
func (f *Forwarder) Rows() []Row {
	var rows []Row
	f.withTable(func(t *hostTable) {
		for _, e := range t.hosts {
			if e.count > 0 {
				rows = append(rows, e.row())
			}
		}
	})
	order.SortFunc(rows, func(a, b Row) int { return cmp.Compare(a.Host, b.Host) })
	return rows
}

// Row returns that of one host; false if none of its URLs are here.
func (f *Forwarder) Row(host string) (row Row, ok bool) {
	f.withTable(func(t *hostTable) {
		if e := t.hosts[host]; e != nil && e.count > 0 {
			row, ok = e.row(), true
		}
	})
	return row, ok
}

func (e *entry) row() Row {
	r := Row{Host: e.name, State: "unresolved", Count: e.count}
	switch e.state {
	case foreign:
		r.State, r.Subnet, r.Owner = "outbox", e.res.Subnet, e.res.Owner
	case unclaimed:
		r.State, r.Subnet = "unclaimed", e.res.Subnet
	}
	return r
}

// RetryNow makes everything due that waits because something failed, and forgets the failures.
// It is called when the network of this peer is back.
func (f *Forwarder) RetryNow() {
	f.withTable(func(t *hostTable) {
		f.backOnline = time.Now()
		t.retryNow(f.backOnline)
	})
	f.wakeup.Signal()
}

func (f *Forwarder) withTable(fn func(*hostTable)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn(f.table)
}

// Run delivers URLs until ctx is done. It returns after all goroutines it started have ended.
// An error is a fatal error of the store; a full store is not one: delivery is suspended until
// there is space (full.go).
func (f *Forwarder) Run(ctx context.Context) error {
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for work.Err() == nil {
		tasks, next := f.due(time.Now())
		for _, t := range tasks {
			wg.Go(func() {
				if err := f.space.note(t(work)); err != nil && work.Err() == nil {
					cancel(fmt.Errorf("outbox: %w", err))
				}
				f.wakeup.Signal()
			})
		}
		_ = f.wakeup.Sleep(work, next)
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(work)
}
