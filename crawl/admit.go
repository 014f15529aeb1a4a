package crawl

import (
	"errors"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"
	lru "github.com/hashicorp/golang-lru/v2"

	"peerd/crawl/trap"
	"peerd/store"
)

const (
	// statesHeld is how many hosts' states are in memory at once: some
	// megabytes, 16 MiB if all of them are as large as they get.
	statesHeld = 512
	// saveEvery is how many URLs of a host are admitted before its state is
	// written again. A crash forgets as many, and moves a limit by as much.
	saveEvery = 256
	// domainsHeld and hostsMet are how many registered domains, and hosts of
	// others, are remembered.
	domainsHeld = 16384
	hostsMet    = 65536
)

// A Gate keeps crawler traps out of the queues: it decides on every URL that
// was never seen before. Its methods are called within transactions of one
// store, of which there is one at a time.
//
// What it counts is kept with the host, but not each time (see saveEvery), nor
// taken back when a transaction fails: its limits are approximate, and
// the same URL gets through once at most because it counts as seen.
type Gate struct {
	guard   *trap.Guard
	states  *lru.Cache[string, *hostState]
	domains *lru.Cache[string, *trap.Domain]
	met     *lru.Cache[string, bool] // hosts of others: whether they are let in
}

// hostState is what the traps know of one host of ours.
type hostState struct {
	trap.State
	epoch uint64 // of the host's ownership; see Admit
	news  int    // admitted since it was saved
}

// NewGate makes a Gate that asks guard.
func NewGate(guard *trap.Guard) *Gate {
	states, err := lru.New[string, *hostState](statesHeld)
	domains, err2 := lru.New[string, *trap.Domain](domainsHeld)
	met, err3 := lru.New[string, bool](hostsMet)
	if err := errors.Join(err, err2, err3); err != nil {
		panic(err) // only for sizes <= 0
	}
	return &Gate{guard: guard, states: states, domains: domains, met: met}
}

// Admit decides on an entry of one of our hosts, as frontier.Config.Admit has
// it. epoch differs each time the host becomes ours, so that nothing is
// remembered from the time before.
func (g *Gate) Admit(tx *store.Tx, e store.Entry, epoch uint64) (reason string, err error) {
	host := e.URL.Host()
	s, err := g.state(tx, host, epoch)
	if err != nil {
		return "", err
	}
	if e.From != "" && e.From != host {
		g.guard.Linked(&s.State, host, e.From)
	}
	h := g.guard.Admit(&s.State, e.URL, time.Now())
	s.news++
	if h != trap.None {
		reason = h.String()
	}
	if s.news < saveEvery {
		return reason, nil
	}
	return reason, save(tx, host, s)
}

func (g *Gate) state(tx *store.Tx, host string, epoch uint64) (*hostState, error) {
	if s, ok := g.states.Get(host); ok && s.epoch == epoch {
		return s, nil
	}
	s := &hostState{epoch: epoch}
	raw, err := tx.State(host)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return nil, err
	default:
		if err := s.UnmarshalCBOR(raw); err != nil {
			s.State = trap.State{} // it may be another peer's: it is learned again
		}
	}
	if old, full := g.oldest(); full && old.Dirty() {
		if err := save(tx, old.host, old.hostState); err != nil {
			return nil, err
		}
	}
	g.states.Add(strings.Clone(host), s) // else it holds its whole URL
	return s, nil
}

// oldest returns the state that has to go for another.
func (g *Gate) oldest() (old struct {
	host string
	*hostState
}, full bool) {
	if g.states.Len() < statesHeld {
		return old, false
	}
	old.host, old.hostState, full = g.states.GetOldest()
	return old, full
}

// save writes a state unless its host has left.
func save(tx *store.Tx, host string, s *hostState) error {
	if _, err := tx.Host(host); err != nil {
		if errors.Is(err, store.ErrNotFound) {
			err = nil
		}
		return err
	}
	raw, err := cbor.Marshal(&s.State)
	if err != nil {
		return err
	}
	s.news = 0
	s.Saved()
	return tx.PutState(host, raw)
}

// AdmitHost decides on a host that is not ours: whether URLs of it are passed
// on at all.
func (g *Gate) AdmitHost(host string) (reason string) {
	ok, met := g.met.Get(host)
	if !met {
		name := trap.RegisteredDomain(host)
		d, known := g.domains.Get(name)
		if !known {
			d = &trap.Domain{}
			g.domains.Add(strings.Clone(name), d)
		}
		ok = g.guard.AdmitHost(d, host) == trap.None
		g.met.Add(strings.Clone(host), ok)
	}
	if ok {
		return ""
	}
	return trap.Subdomains.String()
}
