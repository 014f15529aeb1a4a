package owner

import (
	"errors"
	"time"

	"peerd/store"
)

// A shadow that was away for longer than its owner waits for it may have been
// replaced, and must not take over with an old copy: so each peer writes down
// now and then that it runs.
const (
	awakeName  = "owner/awake"
	awakeEvery = 5 * time.Second
)

// wasAwake reads when this peer last ran, before now.
func (m *Manager) wasAwake() error {
	err := m.cfg.DB.View(func(tx *store.Tx) error { return tx.Meta(awakeName, &m.awake) })
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// stamp writes down that this peer runs, as long as it shadows others: not before
// owners have had the time to open again what they had here, lest two restarts soon after
// each other look like one.
func (m *Manager) stamp(now time.Time) error {
	if m.cfg.Replicas == nil || now.Sub(m.stamped) < awakeEvery || now.Sub(m.started) < m.cfg.Times.Lost {
		return nil
	}
	m.stamped = now
	return m.cfg.DB.Update(func(tx *store.Tx) error { return tx.PutMeta(awakeName, now) })
}
