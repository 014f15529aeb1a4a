package crawllet

import (
	"crypto/rand"
	"sync"
	"time"
)

const (
	maxTickets = 1000
	maxNonces  = 10_000
)

// ticket is a granted offer.
type ticket struct {
	offer   *Offer
	limits  Limits
	expires time.Time
}

// tickets are the granted offers, and the nonces of all offers that have not expired. It is safe
// for concurrent use.
type tickets struct {
	mu     sync.Mutex
	open   map[string]*ticket
	nonces map[string]time.Time // to when they are forgotten
}

func newTickets() *tickets {
	return &tickets{open: map[string]*ticket{}, nonces: map[string]time.Time{}}
}

// add checks the time and the nonce of an offer, and returns its ticket.
func (t *tickets) add(o *Offer, l Limits, now time.Time) (string, *ticket, error) {
	created := time.Unix(o.Created, 0)
	if now.Sub(created) > lifetime || created.Sub(now) > skew {
		return "", nil, fail(Expired, "compare the clocks of crawler and site")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.prune(now)
	nonce := string(o.Key) + string(o.Nonce)
	if _, ok := t.nonces[nonce]; ok {
		return "", nil, fail(Replayed, "")
	}
	if len(t.open) >= maxTickets || len(t.nonces) >= maxNonces {
		return "", nil, fail(Busy, "too many offers")
	}
	// An offer is accepted for at most this long.
	t.nonces[nonce] = created.Add(lifetime + time.Second)
	name, granted := rand.Text(), &ticket{o, l, now.Add(lifetime)}
	t.open[name] = granted
	return name, granted, nil
}

// prune forgets what has expired.
func (t *tickets) prune(now time.Time) {
	for name, k := range t.open {
		if now.After(k.expires) {
			delete(t.open, name)
		}
	}
	for nonce, until := range t.nonces {
		if now.After(until) {
			delete(t.nonces, nonce)
		}
	}
}

// get returns a ticket; take also makes it invalid.
func (t *tickets) get(name string, now time.Time) (*ticket, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k, ok := t.open[name]
	if !ok || now.After(k.expires) {
		return nil, fail(NoTicket, "")
	}
	return k, nil
}

func (t *tickets) take(name string, now time.Time) (*ticket, error) {
	k, err := t.get(name, now)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[name] != k {
		return nil, fail(NoTicket, "")
	}
	delete(t.open, name)
	return k, nil
}
