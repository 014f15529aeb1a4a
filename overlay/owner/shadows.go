package owner

import (
	"errors"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords/assign"
	"peerd/overlay/shadow"
)

// MaxShadows bounds the shadows of a subnet.
const MaxShadows = 4

// slowly is how often shadows, ours and others', are looked at, in Config.Tick.
const slowly = 2

// keeper is a peer that keeps a copy of a subnet of ours: a shadow.
type keeper struct {
	id     peer.ID
	well   time.Time // chosen, or when it last kept up
	synced bool      // it has had all; what is committed since may be missing
	told   bool      // Replicas knows of it since our start
}

// keepersOf returns the peers of that name as keepers that nobody was told of.
func keepersOf(names []string) []keeper {
	var ks []keeper
	for _, name := range names {
		if id, err := peer.Decode(name); err == nil {
			ks = append(ks, keeper{id: id, well: time.Now()})
		}
	}
	return ks
}

// tend looks at the shadows of our subnets now and then: new ones are chosen for
// those that are lost, or missing. The error is one of the store.
func (m *Manager) tend(now time.Time) error {
	if m.cfg.Replicas == nil || m.turn%slowly != 0 {
		return nil
	}
	if m.cfg.Witness != nil {
		m.cfg.Replicas.SetPanel(m.cfg.Witness.Panel())
	}
	var all []assign.Candidate
	for _, s := range m.guarded() {
		ks, changed := m.looked(s, now)
		if len(ks) < m.cfg.Shadows && !m.draining.Load() {
			if all == nil {
				all = m.candidates()
			}
			for _, id := range m.nominate(s, ks, all, m.cfg.Shadows-len(ks), now) {
				ks, changed = append(ks, keeper{id: id, well: now}), true
			}
		}
		if err := m.followed(s, ks, changed); m.stall(err) != nil {
			return err
		}
	}
	return nil
}

// guarded returns the subnets that have shadows, or should.
func (m *Manager) guarded() []*subnet {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []*subnet
	for _, s := range m.subnets {
		if !s.leaving() && !s.doubted() && (m.cfg.Shadows > 0 || len(s.keepers) > 0) {
			all = append(all, s)
		}
	}
	return all
}

// looked returns the shadows of a subnet without those that are lost, and says
// whether any was.
func (m *Manager) looked(s *subnet, now time.Time) (ks []keeper, changed bool) {
	m.mu.Lock()
	have := slices.Clone(s.keepers)
	m.mu.Unlock()
	for i, k := range have {
		if !k.told {
			ks = append(ks, k)
			continue
		}
		st := m.cfg.Replicas.State(s.prefix, k.id)
		refused := false
		switch {
		case st.Err == nil:
			k.well, k.synced = later(k.well, st.Heard), st.Synced
		case errors.Is(st.Err, shadow.ErrStale):
			m.suspect(s, now)
		default:
			refused = errors.Is(st.Err, shadow.ErrRefused)
		}
		if refused || now.Sub(k.well) > m.cfg.Times.Lost || i >= m.cfg.Shadows {
			m.log.Info("shadow lost", "subnet", s.prefix, "shadow", k.id, "err", st.Err)
			m.cfg.Replicas.Unfollow(s.prefix, k.id, true)
			m.mu.Lock()
			s.shun(k.id.String(), now)
			m.mu.Unlock()
			changed = true
			continue
		}
		ks = append(ks, k)
	}
	return ks, changed
}

// followed has the shadows of a subnet kept in sync, and notes them.
func (m *Manager) followed(s *subnet, ks []keeper, changed bool) error {
	for i := range ks {
		k := &ks[i]
		if k.told {
			continue
		}
		if err := m.follow(s, k.id); err != nil {
			return err
		}
		k.told = true
	}
	m.mu.Lock()
	s.keepers = ks
	m.mu.Unlock()
	if changed {
		return m.save(s)
	}
	return nil
}

// follow has a peer keep a copy of a subnet of ours.
func (m *Manager) follow(s *subnet, to peer.ID) error {
	m.mu.Lock()
	o := shadow.Open{Subnet: s.prefix, Epoch: s.lease.Epoch}
	m.mu.Unlock()
	return m.cfg.Replicas.Follow(s.prefix, to, o)
}

// nominate chooses up to n peers that are to shadow a subnet.
func (m *Manager) nominate(s *subnet, have []keeper, all []assign.Candidate, n int, now time.Time) []peer.ID {
	m.mu.Lock()
	q := nomination{subnet: s.prefix, self: m.cfg.Self.String(), proxy: s.lease.Proxy, prefer: s.prefer, not: map[string]bool{}, holders: m.cfg.Holders}
	for who, until := range s.avoid {
		if until.After(now) {
			q.not[who] = true
		}
	}
	if s.to != "" { // it has a copy anyway, and will own the subnet
		q.not[s.to] = true
	}
	m.mu.Unlock()
	for _, k := range have {
		q.not[k.id.String()] = true
	}
	return q.choose(all, n)
}

// alone says that nobody is to be had who could shadow a subnet.
func (m *Manager) alone() bool {
	all := m.cfg.Directory.Candidates()
	return !slices.ContainsFunc(all, func(c assign.Candidate) bool { return c.ID != m.cfg.Self.String() })
}
