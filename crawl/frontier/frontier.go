// Package frontier decides which URL of our own hosts is fetched next, and
// when. It owns the politeness clocks: at most one request at a time per host
// and per address, and a gap after each. It may import store only.
//
// The queues themselves are in the store, a host's ordered by depth and within
// a depth first in, first out. In memory there is one small record a host, an
// address and a subnet, the next few entries of each host (some 16 MiB in all),
// and for each class of addresses (found by this peer, assigned by another) a
// heap by the time at which they may be asked again.
//
// Files: frontier.go the public face; server.go hosts, addresses and the heaps;
// subnet.go pausing, single file, adopting and dropping of whole subnets; place.go hosts
// that change their address or leave alone;
// visits.go giving up hosts, and when pages are due again; window.go reading
// ahead in the queues; wait.go how long URLs wait for a worker.
package frontier

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"peerd/store"
)

var (
	// ErrUnknownHost is returned for a host that is not in the frontier.
	ErrUnknownHost = errors.New("frontier: not one of our hosts")
	// ErrPaused is returned by Update while a host's subnet is paused or shut.
	ErrPaused = errors.New("frontier: subnet is paused")
)

// Config tunes a Frontier.
type Config struct {
	DB *store.DB
	// Gap is the floor between the end of a request to a host or an address
	// and the start of the next.
	Gap time.Duration
	// HostLimit bounds the URLs that one host may ever have; 0 means none.
	HostLimit int64
	// Shares is zero for DefaultShares.
	Shares Shares
	// Open returns 0 when pages may be fetched now, else how long they may not.
	// Nil is always open. It is called under the Frontier's lock, each time a
	// job is looked for: it must be quick and call nothing of the Frontier.
	Open func(now time.Time) time.Duration
	// Admit looks at an entry whose URL was never seen at its host, in the
	// transaction that would queue it. If it returns the name of a reason, the
	// URL counts as seen, is counted under that name and is not queued; epoch
	// differs each time the host came into the frontier. Nil admits all.
	Admit func(tx *store.Tx, e store.Entry, epoch uint64) (reason string, err error)
}

// Job is one URL that may be fetched now. Whoever got it must give it back
// with exactly one Release.
type Job struct {
	Entry  store.Entry
	Host   string
	Addr   netip.Addr
	Subnet netip.Prefix

	host *host
	sub  *subnet // the host's at the time; it may have been dropped since
}

// Frontier is safe for concurrent use.
type Frontier struct {
	cfg Config

	mu       sync.Mutex
	hosts    map[string]*host
	servers  map[netip.Addr]*server
	subnets  map[netip.Prefix]*subnet
	ready    [classes]readyHeap
	share    [classes]float64
	credit   [classes]float64
	pending  int64
	inFlight int
	epochs   uint64    // hosts ever added
	wait     float64   // nanoseconds; see Wait
	shut     time.Time // until when Config.Open last said no

	// Of all that wait in Next, one leads: it alone watches the heap. The
	// others stand in line for its place, so that a change wakes one of them
	// and not all.
	lead chan struct{} // holds one token while somebody leads
	wake chan struct{} // holds one token when the leader must look again
}

// New loads the hosts from the store. It reads one small record a host, not
// the queues. A staged (not yet adopted) subnet's hosts are left out: live
// says which subnets count. No server is asked before Config.Gap has passed:
// it may have been asked just before the restart.
func New(cfg Config, live func(netip.Prefix) bool) (*Frontier, error) {
	f := &Frontier{
		cfg: cfg, hosts: map[string]*host{}, servers: map[netip.Addr]*server{},
		subnets: map[netip.Prefix]*subnet{}, lead: make(chan struct{}, 1), wake: make(chan struct{}, 1),
	}
	shares := cfg.Shares
	if shares == (Shares{}) {
		shares = DefaultShares
	}
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
		s.nextAt = at
		f.reheapLocked(s)
	}
	return f, nil
}

// Stats are the sums of a Frontier.
type Stats struct {
	Hosts    int
	Pending  int64 // queued, those in flight not counted
	InFlight int
}

// Stats returns the sums.
func (f *Frontier) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Stats{Hosts: len(f.hosts), Pending: max(0, f.pending-int64(f.inFlight)), InFlight: f.inFlight}
}

// Owns says whether host is in the frontier and open for new URLs.
func (f *Frontier) Owns(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hosts[name]
	return h != nil && !h.closed && !h.srv.sub.paused
}

// AddHost makes a host known. A host that is there already is left as it is.
// addr must lie in subnet.
func (f *Frontier) AddHost(name string, subnet netip.Prefix, addr netip.Addr) error {
	addr = addr.Unmap() // one machine must not pass for two
	if store.SubnetOf(addr) != subnet {
		return fmt.Errorf("frontier: add %s: %s is not in %s", name, addr, subnet)
	}
	f.mu.Lock()
	known := f.hosts[name] != nil
	f.mu.Unlock()
	if known {
		return nil
	}
	h := store.Host{Name: name, Subnet: subnet, Addr: addr}
	err := f.cfg.DB.Update(func(tx *store.Tx) error {
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
		f.reheapLocked(srv)
	}
	return nil
}

// Update runs fn in a store transaction in which Push may be called for the
// hosts named; it returns ErrPaused or ErrUnknownHost, having done nothing,
// when one of them cannot take URLs now. What was pushed becomes ready when the
// transaction has been committed. Like that of store.DB.Batch, fn may be called
// more than once.
func (f *Frontier) Update(hosts []string, fn func(tx *store.Tx, push Push) error) error {
	in, err := f.enter(hosts)
	if err != nil {
		return err
	}
	verdicts := map[store.URL]string{}
	err = f.cfg.DB.Batch(func(tx *store.Tx) error {
		for _, p := range in {
			p.added, p.depths = 0, p.depths[:0]
		}
		return fn(tx, func(name string, e store.Entry) (bool, error) {
			p := in[name]
			if p == nil {
				return false, fmt.Errorf("frontier: push to %s, which Update was not told of", name)
			}
			ok, err := f.push(tx, p.host, e, verdicts)
			if ok {
				p.add(e.Depth)
			}
			return ok, err
		})
	})
	f.leave(in, err == nil)
	return err
}

// push queues an entry that nothing speaks against. verdicts are those of
// Admit when the same Update was tried before: it is asked once, for it learns
// from every question.
func (f *Frontier) push(tx *store.Tx, h *host, e store.Entry, verdicts map[store.URL]string) (bool, error) {
	if e.Kind.Revisit() {
		return tx.PushAgain(h.name, e)
	}
	if f.cfg.Admit == nil {
		return tx.Push(h.name, e, f.cfg.HostLimit)
	}
	if seen, err := tx.Seen(e.URL); err != nil || seen {
		return false, err
	}
	rec, err := tx.Host(h.name)
	if err != nil {
		return false, fmt.Errorf("push to %s: %w", h.name, err)
	}
	if limit := f.cfg.HostLimit; limit > 0 && rec.Known >= limit {
		return tx.Push(h.name, e, limit) // which drops it
	}
	reason, known := verdicts[e.URL]
	if !known {
		if reason, err = f.cfg.Admit(tx, e, h.epoch); err != nil {
			return false, err
		}
		verdicts[e.URL] = reason
	}
	if reason != "" {
		tx.Count(store.Counters{Dropped: 1})
		tx.CountNamed(reason, 1)
		return false, tx.MarkSeen(e.URL)
	}
	return tx.Push(h.name, e, f.cfg.HostLimit)
}

// Push queues one entry at a host, inside Update. It says whether it was queued:
// its URL was new, admitted, and within the host's limit. A revisit is queued
// unless it is in the queue already.
type Push func(host string, e store.Entry) (bool, error)

// Next waits for a job until ctx ends. An error that is not ctx's is one of the
// store.
func (f *Frontier) Next(ctx context.Context) (Job, error) {
	for {
		job, err := f.await(ctx)
		if err != nil {
			return Job{}, err
		}
		job.Entry, err = f.entry(job)
		switch {
		case err == nil:
			return job, nil
		case errors.Is(err, store.ErrNotFound): // the count was ahead of the queue
			f.release(job, outcome{done: true})
		default:
			f.release(job, outcome{asked: true, gap: time.Second})
			return Job{}, err
		}
	}
}

// await returns the next job, its entry still to be read. Whoever finds one
// ready takes it; only who must wait stands in line.
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
		f.sleep(ctx, wait)
	}
	return Job{}, ctx.Err()
}

// sleep returns after d, when something has changed, or when ctx ends.
func (f *Frontier) sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-f.wake:
	case <-t.C:
	}
}

// Release gives a job back for which a request was sent. done says that its
// entry has left the queue (it was fetched or given up); otherwise it will come
// again. The host and its address are not asked before now+max(gap,
// Config.Gap); hostWait holds back the host alone for longer (Retry-After,
// back-off).
func (f *Frontier) Release(j Job, done bool, gap, hostWait time.Duration) {
	f.release(j, outcome{done: done, asked: true, gap: max(gap, f.cfg.Gap), hostWait: hostWait})
}

// Return gives a job back for which no request was sent: no clock moves. done
// is as in Release.
func (f *Frontier) Return(j Job, done bool) { f.release(j, outcome{done: done}) }
