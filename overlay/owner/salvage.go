package owner

import (
	"context"
	"net/netip"
	"time"

	"peerd/overlay/lease"
	"peerd/overlay/shadow"
)

// A copy that nobody will go on with may still know URLs that nobody else does: one
// that was never complete, of an owner that is dead; or one whose subnet somebody has
// begun anew, as its keeper was away. Before it is swept away, what is queued in it
// and what its owner had not delivered is put aside like own finds, for whoever owns
// the subnet now. What that one has it drops as seen.

// wrecksAtOnce bounds the copies that are salvaged at once.
const wrecksAtOnce = 2

// wreck marks a copy as one to be salvaged.
func (m *Manager) wreck(p netip.Prefix) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.wrecks[p]; !known {
		m.wrecks[p] = false
	}
}

// dead says whether the owner of a copy is silent for so long that no shadow of it
// with something better can still be on its way to take over.
func (m *Manager) dead(h shadow.Held, now time.Time) bool {
	return !h.Live && m.quiet(h, now) > m.cfg.Times.Orphan+8*m.share(h.Subnet)
}

// quiet is for how long the owner of a copy has been silent, for us and on the link.
func (m *Manager) quiet(h shadow.Held, now time.Time) time.Duration {
	return min(now.Sub(m.lastHeard(h.Owner)), now.Sub(h.Heard))
}

// toSalvage returns what is to be done for wrecks.
func (m *Manager) toSalvage() (tasks []func(context.Context)) {
	if m.cfg.Replicas == nil || m.turn%slowly != 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	busy := 0
	for _, b := range m.wrecks {
		if b {
			busy++
		}
	}
	for p, b := range m.wrecks {
		if b || busy >= wrecksAtOnce {
			continue
		}
		m.wrecks[p] = true
		busy++
		tasks = append(tasks, func(context.Context) {
			err := m.salvage(p)
			if err != nil {
				m.log.Error("copy not salvaged", "subnet", p, "err", err)
			}
			m.mu.Lock()
			if m.wrecks[p] = false; err == nil {
				delete(m.wrecks, p)
			}
			m.mu.Unlock()
			m.wake()
		})
	}
	return tasks
}

// salvage puts aside what only a copy may know, and sweeps the copy away. It may be
// done again.
func (m *Manager) salvage(p netip.Prefix) error {
	h, held := m.cfg.Replicas.Copy(p)
	if !held || m.Live(p) {
		return nil
	}
	if err := m.putAll(p); err != nil {
		return err
	}
	if err := m.putLinks(p); err != nil {
		return err
	}
	if err := m.cfg.DB.Sync(); err != nil {
		return err
	}
	m.log.Warn("a copy is given up; its URLs are put aside", "subnet", p, "owner", h.Owner, "complete", h.Complete)
	return m.cfg.Replicas.Forget(p)
}

// precious says whether the copy that is here of a subnet may know what the owner who
// opens it does not: one that has begun anew, because it took over without a copy or has
// lost its disk.
func (m *Manager) precious(o shadow.Open, l lease.Lease) bool {
	if m.cfg.Replicas == nil {
		return false
	}
	h, held := m.cfg.Replicas.Copy(o.Subnet)
	switch {
	case !held, h.Pos.Log == 0, h.Pos.Log == o.Log:
		return false // nothing in it, or the same log
	case h.Pos.Log == o.Base.Log && h.Pos.Seq <= o.Base.Seq:
		return false // the owner has had that, and more
	}
	return !passed(h, l)
}

// passed says whether the owner of a copy gave the subnet away by the lease l itself, with
// all that it had.
func passed(h shadow.Held, l lease.Lease) bool { return l.Epoch == h.Epoch+1 && l.Grant != nil }
