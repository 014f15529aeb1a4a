package frontier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"peerd/internal/backoff"
	"peerd/store"
)

var (
	// ErrUnknownHost is returned for a host that is not in the frontier.
	ErrUnknownHost = errors.New("frontier: not one of our hosts")
	// ErrPaused is returned by Update while the subnet of a host is paused.
	ErrPaused = errors.New("frontier: subnet is paused")
)

// A Node is the rest of this peer.
type Node interface {
	// Left is called when the visit of a host has ended. It is called with the Frontier's lock
	// held; it must be fast and must not call the Frontier.
	Left(host string)
	// FetchWait returns how long nothing may be fetched, or 0. It is called with the Frontier's
	// lock held whenever a job is looked for; it must be fast and must not call the Frontier. A
	// wait that was returned may be waited for in full, at most for an hour, unless
	// FetchWaitChanged is called.
	FetchWait(now time.Time) time.Duration
	// Admit decides about an entry with a URL that was never seen at its host, in the
	// transaction that would queue it. If it returns a reason, the URL counts as seen, is
	// counted under that name and is not queued. The epoch changes each time the host enters the
	// frontier.
	Admit(tx *store.Tx, e store.Entry, epoch uint64) (reason string, err error)
}

// free is a Node that admits all URLs at any time.
type free struct{}

func (free) Left(string)                                          {}
func (free) FetchWait(time.Time) time.Duration                    { return 0 }
func (free) Admit(*store.Tx, store.Entry, uint64) (string, error) { return "", nil }

// Config configures a Frontier.
type Config struct {
	DB *store.DB
	// Gap is the minimum time between the end of a request to a host or address and the
	// start of the next.
	Gap time.Duration
	// NetworkRequests is the maximum number of concurrent requests to a network of addresses
	// (store.SubnetOf), and NetworkRate how many may start in a second; at least as many as one
	// host with a gap allows. Requests outside the queues (Reserve) count. 0: no limit.
	NetworkRequests int
	NetworkRate     float64
	// AddrRequests is the maximum number of concurrent requests to an address with many hosts,
	// and the factor by which it may be asked more often than one host: see Observe. 0 and 1 are
	// one request at a time. What the network allows is not exceeded.
	AddrRequests int
	// HostLimit is the maximum number of URLs that a host may ever have; 0 means no limit.
	HostLimit int64
	// At most MaxVisits hosts are visited at once, one for each slot of a server, and no other
	// server is asked: a connection to each of them can be kept open, although there is not enough
	// memory for connections to all hosts that have work. A server gets no further slot beyond
	// that. A visit goes on with one host for each slot of the server, until that has nothing to
	// ask for, or has had VisitLength jobs and another host of the server may be asked. It ends
	// when the server has no work or pauses for more than MaxVisitPause, and after VisitLength jobs
	// if another server waits. 0: there are no visits.
	MaxVisits, VisitLength int
	// Shares defaults to DefaultShares.
	Shares Shares
	// Node limits what is fetched and queued; nil: all URLs are, at any time.
	Node Node
}

// Job is a URL that may be fetched now. End each job with exactly one call of Release,
// Return or Defer.
type Job struct {
	Entry  store.Entry
	Host   string
	Addr   netip.Addr
	Subnet netip.Prefix
	Epoch  uint64 // of the host; see Node.Admit

	host *host
	sub  *subnet // of the host when the job was taken; may have been dropped since
}

// Frontier is safe for concurrent use.
type Frontier struct {
	cfg      Config
	interval time.Duration // between the starts of requests to a network

	mu          sync.Mutex
	hosts       map[string]*host
	servers     map[netip.Addr]*server
	subnets     map[netip.Prefix]*subnet
	ready       [classes]readyServers
	share       [classes]float64
	credit      [classes]float64
	pending     int64
	inFlight    int
	epochs      uint64  // number of hosts ever added
	visits      int     // slots of servers with a host that is being visited
	workerWait  float64 // average in nanoseconds; see WorkerWait
	pauses      Pauses
	closedUntil time.Time // end of the last FetchWait

	networks clocks[netip.Prefix]
	addrs    clocks[netip.Addr] // of requests outside the queues, and of what has left them
	names    clocks[string]     // of hosts; the same
	freed    chan struct{}      // if not nil: closed when a request ends

	// One goroutine in Next, the leader, watches the heap. The others wait to become the
	// leader, so a change wakes one of them and not all.
	lead chan struct{} // holds a token while there is a leader
	wake backoff.Wake  // holds a token if the leader must look again
}

// New loads the hosts from the store. It reads one small record per host, not the queues.
// Hosts of subnets for which live returns false (received but not adopted) are left out. No
// server is asked before Config.Gap has passed, because it may have been asked just before
// a restart.
func New(cfg Config, live func(netip.Prefix) bool) (*Frontier, error) {
	f := &Frontier{
		cfg: cfg, interval: cfg.networkInterval(),
		hosts: map[string]*host{}, servers: map[netip.Addr]*server{},
		subnets: map[netip.Prefix]*subnet{}, lead: make(chan struct{}, 1),
		wake: backoff.NewWake(),
	}
	if cfg.Node == nil {
		f.cfg.Node = free{}
	}
	f.cfg.VisitLength = max(cfg.VisitLength, 1)
	shares := cmp.Or(cfg.Shares, DefaultShares)
	f.share = [classes]float64{own: shares.Own, assigned: shares.Assigned}
	err := cfg.DB.View(func(tx *store.Tx) error {
		return tx.Hosts(func(h store.Host) error {
			if live(h.Subnet) {
				f.addLocked(h)
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("frontier: %w", err)
	}
	at := time.Now().Add(cfg.Gap)
	for _, s := range f.servers {
		s.delay(at)
		f.reheapLocked(s)
	}
	return f, nil
}

// Stats are the totals of a Frontier.
type Stats struct {
	Hosts    int
	Pending  int64 // queued URLs without those in flight
	InFlight int
}

// Stats returns the totals.
func (f *Frontier) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Stats{Hosts: len(f.hosts), Pending: max(0, f.pending-int64(f.inFlight)),
		InFlight: f.inFlight}
}

// Owns reports whether a host is in the frontier and accepts new URLs.
func (f *Frontier) Owns(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hosts[name].accepts()
}

// Leaving returns a channel that is closed as soon as Owns is false for a host.
func (f *Frontier) Leaving(name string) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hosts[name]
	if !h.accepts() {
		now := make(chan struct{})
		close(now)
		return now
	}
	if h.leaving == nil {
		h.leaving = make(chan struct{})
	}
	return h.leaving
}

// AddHost adds a host to the store and the frontier. It does nothing if the frontier has
// the host. addr must be in subnet. The host is not asked before at, nor is another host at
// an address that was not known.
func (f *Frontier) AddHost(
	name string, subnet netip.Prefix, addr netip.Addr, at time.Time,
) error {
	addr = addr.Unmap() // both forms of an address are one machine
	if store.SubnetOf(addr) != subnet {
		return fmt.Errorf("frontier: add %s: %s is not in %s", name, addr, subnet)
	}
	f.mu.Lock()
	known := f.hosts[name] != nil
	f.mu.Unlock()
	if known {
		return nil
	}
	var h store.Host
	err := f.cfg.DB.Batch(func(tx *store.Tx) error {
		h = store.Host{Name: name, Subnet: subnet, Addr: addr}
		old, err := tx.Host(name)
		switch {
		case errors.Is(err, store.ErrNotFound):
			tx.PutHost(h)
		case err != nil:
			return err
		default:
			old.Subnet, old.Addr = subnet, addr
			h = *old
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("frontier: add %s: %w", name, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if srv := f.addLocked(h); srv != nil {
		added := f.hosts[name]
		added.checked = time.Now().Unix() // its name has just been looked up
		added.nextAt = later(added.nextAt, at)
		added.orderLocked()
		if len(srv.hosts) == 1 {
			srv.delay(at)
		}
		f.reheapLocked(srv)
	}
	return nil
}

// Update runs fn in a store transaction in which Push may be called for the given hosts. It
// returns ErrPaused or ErrUnknownHost without calling fn if one of them cannot accept URLs
// now. Pushed entries become available when the transaction is committed. As in
// store.DB.Batch, fn may be called more than once.
func (f *Frontier) Update(hosts []string, fn func(tx *store.Tx, push Push) error) error {
	in, err := f.beginUpdate(hosts)
	if err != nil {
		return err
	}
	reasons := map[store.URL]string{}
	err = f.cfg.DB.Batch(func(tx *store.Tx) error {
		for _, p := range in {
			p.added, p.places = 0, p.places[:0]
		}
		return fn(tx, func(name string, e store.Entry) (bool, error) {
			p := in[name]
			if p == nil {
				return false, fmt.Errorf("frontier: push to %s: not a host of this Update", name)
			}
			ok, err := f.push(tx, p.host, e, reasons)
			if ok {
				p.add(e.Place())
			}
			return ok, err
		})
	})
	f.endUpdate(in, err == nil)
	return err
}

// push queues an entry unless a rule rejects it. reasons holds the results of Admit from
// earlier tries of the same Update: Admit must be called only once per URL because it
// counts its calls.
func (f *Frontier) push(
	tx *store.Tx, h *host, e store.Entry, reasons map[store.URL]string,
) (bool, error) {
	switch {
	case e.Kind.Revisit():
		return tx.PushRevisit(h.name, e)
	case !e.First.IsZero():
		return true, tx.PushAgain(h.name, e)
	}
	if seen, err := tx.Seen(e.URL); err != nil || seen {
		return false, err
	}
	rec, err := tx.Host(h.name)
	if err != nil {
		return false, fmt.Errorf("frontier: push to %s: %w", h.name, err)
	}
	if limit := f.cfg.HostLimit; limit > 0 && rec.Known >= limit {
		return tx.Push(h.name, e, limit) // drops it
	}
	reason, known := reasons[e.URL]
	if !known {
		if reason, err = f.cfg.Node.Admit(tx, e, h.epoch); err != nil {
			return false, err
		}
		reasons[e.URL] = reason
	}
	if reason != "" {
		tx.Count(store.Counters{Dropped: 1})
		tx.CountNamed(reason, 1)
		return false, tx.MarkSeen(e.URL)
	}
	return tx.Push(h.name, e, f.cfg.HostLimit)
}

// Push queues an entry at a host, inside Update. It reports whether the entry was queued:
// its URL is new, admitted, and within the limit of the host. A revisit is queued unless it
// is queued already. An entry with First was tried before and is always queued.
type Push func(host string, e store.Entry) (bool, error)

// Next waits for a job until ctx ends. Any error other than ctx's comes from the store.
func (f *Frontier) Next(ctx context.Context) (Job, error) {
	for {
		job, err := f.await(ctx)
		if err != nil {
			return Job{}, err
		}
		job.Entry, err = f.entry(job)
		switch {
		case err == nil:
			f.mu.Lock()
			job.host.current = job.Entry.URL
			f.mu.Unlock()
			return job, nil
		case errors.Is(err, store.ErrNotFound): // the counter was ahead of the queue
			f.release(job, outcome{done: true})
		default:
			f.release(job, outcome{requested: true, gap: time.Second})
			return Job{}, err
		}
	}
}

// await returns the next job without its entry. A goroutine that finds a job ready takes
// it; only those that have to wait queue up.
func (f *Frontier) await(ctx context.Context) (Job, error) {
	if ctx.Err() != nil {
		return Job{}, ctx.Err()
	}
	if job, _ := f.take(time.Now()); job.host != nil {
		return job, nil
	}
	select {
	case <-ctx.Done():
		return Job{}, ctx.Err()
	case f.lead <- struct{}{}:
	}
	defer func() { <-f.lead }()
	for ctx.Err() == nil {
		job, wait := f.take(time.Now())
		if job.host != nil {
			return job, nil
		}
		_ = f.wake.Sleep(ctx, wait)
	}
	return Job{}, ctx.Err()
}

// Release ends a job for which a request was sent. done says that its entry has left the
// queue (fetched or given up); otherwise it will be handed out again. The host and the slot of
// its address are not asked before now+max(gap, Config.Gap). hostWait delays the host alone for
// longer (Retry-After, back-off).
func (f *Frontier) Release(j Job, done bool, gap, hostWait time.Duration) {
	f.release(j, outcome{done: done, requested: true, gap: max(gap, f.cfg.Gap), hostWait: hostWait})
}

// Return ends a job for which no request was sent. No clock moves. done is as in Release.
func (f *Frontier) Return(j Job, done bool) { f.release(j, outcome{done: done}) }

// Defer ends a job for which no request was sent, after its entry was moved behind all others
// of the host (store.Tx.Defer). No clock moves.
func (f *Frontier) Defer(j Job) { f.release(j, outcome{deferred: true}) }
