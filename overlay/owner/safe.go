package owner

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"
)

// flushesAtOnce bounds the subnets whose shadows one Safe waits for at a time.
const flushesAtOnce = 64

// Safe returns when what was committed before the call for subnets of ours would
// survive this peer, because their shadows have it on their disks; and those of
// them for which that is not so within Times.Flush: whoever brought something
// for them is to keep it, and come again. A subnet's first shadow is waited for
// as long as Times.First says, a shadow that does not answer until it is given up
// (Times.Lost). Where there is nobody to be a shadow, or one is being replaced, it
// does not wait: this peer's disk has to be enough. What is not ours any more is not
// safe.
func (m *Manager) Safe(ctx context.Context, subnets []netip.Prefix) (unsafe []netip.Prefix) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Times.Flush)
	defer cancel()
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(flushesAtOnce)
	for _, p := range subnets {
		to, ok := m.guards(p, time.Now())
		if ok && len(to) == 0 {
			continue
		}
		g.Go(func() error {
			if ok {
				err := m.cfg.Replicas.Flush(ctx, p, to...)
				if err == nil {
					return nil
				}
				m.log.Debug("shadows not in sync", "subnet", p, "err", err)
			}
			mu.Lock()
			defer mu.Unlock()
			unsafe = append(unsafe, p)
			return nil
		})
	}
	_ = g.Wait() // there are no errors
	return unsafe
}

// guards returns the shadows that hold a subnet of ours: none, if its URLs are
// taken without. It is false while they are not taken at all.
func (m *Manager) guards(p netip.Prefix, now time.Time) (to []peer.ID, ok bool) {
	m.mu.Lock()
	s := m.subnets[p]
	if s == nil || s.leaving() || s.doubted() {
		m.mu.Unlock()
		return nil, false
	}
	for _, k := range s.keepers {
		if k.synced {
			to = append(to, k.id)
		}
	}
	fresh := now.Sub(s.since) < m.cfg.Times.First
	m.mu.Unlock()
	if m.cfg.Replicas == nil || m.cfg.Shadows == 0 || len(to) > 0 || !fresh {
		return to, true
	}
	return nil, m.alone()
}

// ahead says that a page that is fetched now would be known to this peer alone, while it
// may soon be taken for dead: then whoever takes over would fetch it again. It lasts for
// Times.Brink at most, as by then the witnesses are heard again, or the right is lost.
func (m *Manager) ahead(p netip.Prefix, now time.Time) bool {
	if m.cfg.Witness == nil || m.cfg.Replicas == nil {
		return false
	}
	if ok, until := m.cfg.Witness.Right(); !ok || until.IsZero() || until.Sub(now) >= m.cfg.Times.Brink {
		return false // or others see to that
	}
	m.mu.Lock()
	var to []peer.ID
	if s := m.subnets[p]; s != nil {
		for _, k := range s.keepers {
			to = append(to, k.id)
		}
	}
	m.mu.Unlock()
	head, _, logged := m.cfg.DB.TailHead(p)
	for _, id := range to {
		if st := m.cfg.Replicas.State(p, id); !logged || !st.Synced || st.Pos.Log != head.Log || st.Pos.Seq < head.Seq {
			return true
		}
	}
	return false
}
