package crawl

import (
	"errors"
	"strings"
	"sync"

	"github.com/fxamacker/cbor/v2"

	"peerd/crawl/canon"
	"peerd/crawl/similar"
	"peerd/crawl/trap"
	"peerd/internal/lru"
	"peerd/store"
)

const (
	// statesHeld is the number of host states held in memory: typically a few megabytes, at
	// most 16 MiB.
	statesHeld = 512
	// saveEvery is the number of URLs of a host that are admitted, or fetched, between two
	// writes of its state. A crash loses at most that many from the counts.
	saveEvery = 256
	// domainsHeld and foreignHostsHeld bound the registered domains, and the hosts that
	// other peers own, for which decisions are cached.
	domainsHeld      = 16384
	foreignHostsHeld = 65536
	// One page in sampleUnknown is compared with others if the state of its host is not in
	// memory.
	sampleUnknown = 16
)

// A Gate keeps crawler traps out of the queues. It decides about every URL that was never
// seen before, and again before it is fetched, because meanwhile other pages may have shown
// that it belongs to a trap. Call the methods that have a transaction only within write
// transactions of one store, which never run concurrently; the others at any time.
//
// The counters of a host are stored with it, but not after every URL (see saveEvery) and
// not rolled back with a failed transaction. Its limits are therefore approximate. A URL
// passes at most once because it then counts as seen.
type Gate struct {
	mu           sync.Mutex // guards the States; transactions are used without it
	guard        *trap.Guard
	states       *lru.Cache[string, *hostState]
	domains      *lru.Cache[string, *trap.Domain]
	foreignHosts *lru.Cache[string, bool] // accepted or not
}

// hostState is the trap state of one of our hosts.
type hostState struct {
	trap.State
	epoch   uint64 // of the host's ownership; see Admit
	unsaved int    // changes since it was saved
}

// NewGate returns a Gate that uses the heuristics of guard.
func NewGate(guard *trap.Guard) *Gate {
	return &Gate{
		guard: guard, states: lru.New[string, *hostState](statesHeld),
		domains:      lru.New[string, *trap.Domain](domainsHeld),
		foreignHosts: lru.New[string, bool](foreignHostsHeld),
	}
}

// Admit implements Admit of frontier.Node for the entries of our hosts. The epoch changes
// each time the host becomes ours; cached state of an older epoch is ignored.
func (g *Gate) Admit(tx *store.Tx, e store.Entry, epoch uint64) (reason string, err error) {
	err = g.change(tx, e.URL.Host(), epoch, func(s *trap.State) {
		if e.From != "" && e.From != e.URL.Host() {
			g.guard.AddLink(s, e.URL.Host(), e.From)
		}
		if h := g.guard.Admit(s, e.URL); h != trap.None {
			reason = h.String()
		}
	})
	return reason, err
}

// Observe learns from a page of one of our hosts that was fetched for the first time. The
// epoch is as for Admit.
func (g *Gate) Observe(tx *store.Tx, v trap.Visit, epoch uint64) error {
	return g.change(tx, v.URL.Host(), epoch, func(s *trap.State) { g.guard.Observe(s, v) })
}

// Exhausted returns the name of the heuristic by which a queued URL must not be fetched now,
// or "". It reads the state of the host from db if it is not in memory.
func (g *Gate) Exhausted(db *store.DB, e store.Entry, epoch uint64) (reason string, err error) {
	if e.Source == 0 {
		return "", nil
	}
	s, ok := g.states.Get(e.URL.Host())
	if !ok || s.epoch != epoch {
		s = &hostState{}
		err := db.View(func(tx *store.Tx) error { return s.read(tx, e.URL.Host()) })
		if err != nil {
			return "", err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if h := g.guard.Exhausted(&s.State, e.URL, e.Source); h != trap.None {
		reason = h.String()
	}
	return reason, nil
}

// CompareText reports whether the text of a page must be compared with other pages of its
// host; see trap.State.Due.
func (g *Gate) CompareText(e store.Entry, epoch uint64) bool {
	switch {
	case e.Kind != store.KindPage:
		return false
	case e.Source.Has(store.SourceCopy):
		return true
	}
	s, ok := g.states.Get(e.URL.Host())
	if !ok || s.epoch != epoch {
		return e.URL.Digest()[0]%sampleUnknown == 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return s.Due()
}

// Compare compares the text of a page of one of our hosts with that of others. The hash is 0
// if it is not known. The epoch is as for Admit.
func (g *Gate) Compare(
	tx *store.Tx, u store.URL, hash similar.Simhash, epoch uint64,
) (text trap.Text, err error) {
	if hash == 0 {
		return trap.TextUnknown, nil
	}
	err = g.change(tx, u.Host(), epoch, func(s *trap.State) { text = s.Compare(hash) })
	return text, err
}

// change calls fn with the state of a host and saves it from time to time.
func (g *Gate) change(tx *store.Tx, host string, epoch uint64, fn func(*trap.State)) error {
	s, err := g.state(tx, host, epoch)
	if err != nil {
		return err
	}
	g.mu.Lock()
	fn(&s.State)
	g.mu.Unlock()
	if s.unsaved++; s.unsaved < saveEvery {
		return nil
	}
	return g.save(tx, host, s)
}

func (g *Gate) state(tx *store.Tx, host string, epoch uint64) (*hostState, error) {
	if s, ok := g.states.Get(host); ok && s.epoch == epoch {
		return s, nil
	}
	s := &hostState{epoch: epoch}
	if err := s.read(tx, host); err != nil {
		return nil, err
	}
	// The oldest is evicted if there is no space.
	if name, old, ok := g.states.GetOldest(); ok && g.states.Len() >= statesHeld && g.dirty(old) {
		if err := g.save(tx, name, old); err != nil {
			return nil, err
		}
	}
	g.states.Add(strings.Clone(host), s) // do not retain the whole URL
	return s, nil
}

// read reads the stored state of a host into s, which must be empty.
func (s *hostState) read(tx *store.Tx, host string) error {
	raw, err := tx.State(host)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err == nil && s.UnmarshalCBOR(raw) != nil {
		s.State = trap.State{} // written by another peer: start over
	}
	return err
}

func (g *Gate) dirty(s *hostState) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return s.Dirty()
}

// save stores a state unless its host is no longer ours.
func (g *Gate) save(tx *store.Tx, host string, s *hostState) error {
	if _, err := tx.Host(host); err != nil {
		if errors.Is(err, store.ErrNotFound) {
			err = nil
		}
		return err
	}
	g.mu.Lock()
	raw, err := cbor.Marshal(&s.State)
	s.MarkSaved()
	g.mu.Unlock()
	if err != nil {
		return err
	}
	s.unsaved = 0
	return tx.PutState(host, raw)
}

// AdmitHost decides whether URLs of a host that is not ours are passed on. It returns the
// name of the heuristic that rejects them, or "".
func (g *Gate) AdmitHost(host string) (reason string) {
	ok, known := g.foreignHosts.Get(host)
	if !known {
		name := canon.RegisteredDomain(host)
		d, found := g.domains.Get(name)
		if !found {
			d = &trap.Domain{}
			g.domains.Add(strings.Clone(name), d)
		}
		ok = g.guard.AdmitHost(d, host) == trap.None
		g.foreignHosts.Add(strings.Clone(host), ok)
	}
	if ok {
		return ""
	}
	return trap.Subdomains.String()
}
