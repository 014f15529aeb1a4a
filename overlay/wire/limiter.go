package wire

import (
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// Rate says how often one peer may ask for something, and all together: names of
// peers cost nothing, so that a bound for each of them bounds nobody.
type Rate struct {
	// PerSecond and AtOnce are those of one peer. > 0.
	PerSecond, AtOnce int
	// Together is how many times as much all may. >= 1.
	Together int
}

// maxAskers is how many peers a Limiter remembers.
const maxAskers = 1024

// Limiter bounds how often peers may ask. The zero value is ready; its methods
// may be called at once.
type Limiter struct {
	mu    sync.Mutex
	all   time.Time             // when all that anybody asked for is paid
	until map[peer.ID]time.Time // the same of each
}

// Allow says whether p may ask once more now, and counts it.
func (l *Limiter) Allow(r Rate, p peer.ID, now time.Time) bool {
	each := time.Second / time.Duration(r.PerSecond)
	most := time.Duration(r.AtOnce) * each
	l.mu.Lock()
	defer l.mu.Unlock()
	until, known := l.until[p]
	if !known && len(l.until) >= maxAskers {
		for q, t := range l.until { // who owes nothing need not be remembered
			if !t.After(now) {
				delete(l.until, q)
			}
		}
		if len(l.until) >= maxAskers {
			return false
		}
	}
	until, all := later(until, now).Add(each), later(l.all, now).Add(each/time.Duration(r.Together))
	if until.Sub(now) > most || all.Sub(now) > most {
		return false
	}
	if l.until == nil {
		l.until = map[peer.ID]time.Time{}
	}
	l.until[p], l.all = until, all
	return true
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
