package overlay

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	ma "github.com/multiformats/go-multiaddr"

	"peerd/overlay/admission"
	"peerd/overlay/wire"
)

// BootstrapState is the state of one bootstrap address.
type BootstrapState struct {
	// Addr is the multiaddr, with the peer ID.
	Addr string
	// Connected reports whether the peer is connected and belongs to this network.
	Connected bool
	// LastError is why the last attempt failed; empty while connected, and before the
	// first attempt has ended.
	LastError string
	// NextAttempt is when the address is tried next, about; zero while connected, and
	// before the first attempt has ended.
	NextAttempt time.Time
}

// Bootstrap returns the state of each address of Config.Bootstrap, in that order,
// without those of this peer itself. It is safe for concurrent use.
func (n *Net) Bootstrap() []BootstrapState {
	var all []BootstrapState
	for _, info := range n.cfg.Bootstrap {
		if info.ID == n.Self() {
			continue
		}
		connected := wire.Connected(n.Host, info.ID) &&
			n.member(info.ID)
		for _, addr := range info.Addrs {
			s := BootstrapState{Addr: bootstrapAddr(info.ID, addr), Connected: connected}
			if !connected {
				s.LastError, s.NextAttempt = n.attempts.get(s.Addr)
				if at := n.refused.next(info.ID); at.After(s.NextAttempt) {
					s.NextAttempt = at // refused again since, perhaps when it dialed this peer
				}
			}
			all = append(all, s)
		}
	}
	return all
}

func bootstrapAddr(p peer.ID, addr ma.Multiaddr) string {
	return addr.String() + "/p2p/" + p.String()
}

// attempts remembers how the last attempt at each bootstrap address went. The zero value
// is ready; its methods are safe for concurrent use.
type attempts struct {
	mu  sync.Mutex
	all map[string]*attempt
}

// attempt is the last attempt at one address.
type attempt struct {
	err    string
	next   time.Time
	logged failure
}

// failure is the kind of error for which an attempt failed.
type failure uint8

const (
	failureNone failure = iota
	failureUnreachable
	failureWrongID
	failureRefused
)

func (a *attempts) get(addr string) (lastError string, next time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if x := a.all[addr]; x != nil {
		return x.err, x.next
	}
	return "", time.Time{}
}

// record notes the result of an attempt at all addresses of a bootstrap peer, and logs
// it if it is not the one logged last for the address.
func (a *attempts) record(log *slog.Logger, info peer.AddrInfo, err error, now, next time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = make(map[string]*attempt)
	}
	for _, addr := range info.Addrs {
		text := bootstrapAddr(info.ID, addr)
		x := a.all[text]
		if x == nil {
			x = &attempt{}
			a.all[text] = x
		}
		if err == nil {
			if x.logged != failureNone {
				log.Info("reached bootstrap peer", "addr", text)
			}
			*x = attempt{}
			continue
		}
		cause := dialCause(err, addr)
		kind := failureOf(cause)
		if x.logged == failureRefused && kind == failureUnreachable && now.Before(x.next) {
			continue // the attempt only saw how the refused connection ended
		}
		x.next = next
		if errors.Is(cause, swarm.ErrDialBackoff) {
			continue // another dial has just failed; the next attempt tells why
		}
		x.err = reason(cause)
		if kind == x.logged {
			continue
		}
		x.logged = kind
		retry := next.Sub(now).Round(100 * time.Millisecond)
		switch kind {
		case failureUnreachable:
			log.Warn("failed to reach bootstrap address", "addr", text, "err", x.err,
				"retry_in", retry)
		case failureWrongID:
			log.Warn("bootstrap address belongs to another peer; check the peer ID",
				"addr", text, "err", x.err, "retry_in", retry)
		}
	}
}

func failureOf(err error) failure {
	var wrong sec.ErrPeerIDMismatch
	switch {
	case errors.Is(err, ErrOtherNetwork), errors.Is(err, admission.ErrRefused),
		errors.Is(err, admission.ErrNoMember), errors.Is(err, admission.ErrMembership):
		return failureRefused
	case errors.As(err, &wrong):
		return failureWrongID
	}
	return failureUnreachable
}

// dialCause returns the part of err that is about addr, or all of err.
func dialCause(err error, addr ma.Multiaddr) error {
	var dial *swarm.DialError
	if !errors.As(err, &dial) {
		return err
	}
	for _, e := range dial.DialErrors {
		if e.Address.Equal(addr) {
			return e.Cause
		}
	}
	if dial.Cause != nil {
		return dial.Cause
	}
	return err
}

// maxReason bounds an error that is kept and shown. Bytes.
const maxReason = 300

// reason returns an error as one line.
func reason(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	return text[:min(len(text), maxReason)]
}

// allWrongID reports whether each address that was dialed belongs to another peer.
func allWrongID(err error) bool {
	var dial *swarm.DialError
	if !errors.As(err, &dial) || len(dial.DialErrors) == 0 {
		return false
	}
	for _, e := range dial.DialErrors {
		if failureOf(e.Cause) != failureWrongID {
			return false
		}
	}
	return true
}
