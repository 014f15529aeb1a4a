package wire

import (
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/clock"
)

// Rate bounds how often one peer may ask for something, and how often all peers
// together: peer IDs cost nothing, so a bound for each alone would be useless.
type Rate struct {
	// PerSecond and Burst apply to one peer. > 0.
	PerSecond, Burst int
	// TotalFactor is how many times as much all peers together may ask. >= 1.
	TotalFactor int
}

// maxPeers is how many peers a Limiter remembers.
const maxPeers = 1024

// Limiter bounds how often peers may ask. The zero value is ready. It is safe for
// concurrent use.
type Limiter struct {
	mu         sync.Mutex
	totalUntil time.Time             // until when the requests so far use up the total rate
	until      map[peer.ID]time.Time // the same for each peer
}

// Allow reports whether p may ask now, and if so counts the request.
func (l *Limiter) Allow(r Rate, p peer.ID, now time.Time) bool { return l.AllowN(r, p, 1, now) }

// AllowN is Allow for a request that counts as n.
func (l *Limiter) AllowN(r Rate, p peer.ID, n int, now time.Time) bool {
	each := time.Second / time.Duration(r.PerSecond)
	most := time.Duration(r.Burst) * each
	each *= time.Duration(n)
	l.mu.Lock()
	defer l.mu.Unlock()
	until, known := l.until[p]
	if !known && len(l.until) >= maxPeers {
		for q, t := range l.until { // forget peers that have used up nothing
			if !t.After(now) {
				delete(l.until, q)
			}
		}
		if len(l.until) >= maxPeers {
			return false
		}
	}
	until, all := clock.Later(until, now).Add(each),
		clock.Later(l.totalUntil, now).Add(each/time.Duration(r.TotalFactor))
	if until.Sub(now) > most || all.Sub(now) > most {
		return false
	}
	if l.until == nil {
		l.until = map[peer.ID]time.Time{}
	}
	l.until[p], l.totalUntil = until, all
	return true
}
