package ownermap

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/overlay/lease"
	"peerd/overlay/wire"
)

// A Store saves leases of other peers for the next start. Calls are not concurrent.
type Store interface {
	// Save stores values under keys of at most 50 bytes. A nil value deletes the key.
	Save(map[string][]byte) error
	// Each calls fn for each saved value until fn returns an error.
	Each(fn func(key string, val []byte) error) error
}

// savedLease is the stored form of an entry. Its key is the prefix.
type savedLease struct {
	Owner   peer.ID       `cbor:"1,keyasint"`
	Epoch   uint64        `cbor:"2,keyasint"`
	Issued  int64         `cbor:"3,keyasint"` // Unix milliseconds, like Expires
	Expires int64         `cbor:"4,keyasint"`
	Proxy   *coords.Proxy `cbor:"5,keyasint,omitempty"`
}

func (e *entry) marshal() ([]byte, error) {
	l := e.lease
	return wire.Marshal(savedLease{l.Owner, l.Epoch, l.Issued.UnixMilli(), l.Expires.UnixMilli(),
		l.Proxy})
}

// unmarshal decodes a saved lease. The signatures were checked before it was saved.
func unmarshal(key string, val []byte) (*entry, error) {
	p, err := netip.ParsePrefix(key)
	if err != nil {
		return nil, fmt.Errorf("ownermap: %w", err)
	}
	var k savedLease
	if err := wire.Unmarshal(val, &k); err != nil {
		return nil, err
	}
	if err := k.Owner.Validate(); err != nil {
		return nil, fmt.Errorf("ownermap: owner of %v: %w", p, err)
	}
	if k.Proxy != nil {
		if err := k.Proxy.Validate(len(k.Proxy.At.Vec)); err != nil {
			return nil, fmt.Errorf("ownermap: %v: %w", p, err)
		}
	}
	at := func(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
	return newEntry(lease.Lease{
		Subnet: p, Owner: k.Owner, Epoch: k.Epoch, Issued: at(k.Issued), Expires: at(k.Expires),
		Proxy: k.Proxy,
	}), nil
}

// load adds the saved leases. Those that are unreadable or too old are deleted with the next
// save.
func (m *Map) load(now time.Time) error {
	return m.cfg.Store.Each(func(key string, val []byte) error {
		e, err := unmarshal(key, val)
		if err != nil || now.Sub(e.lease.Expires) > retention {
			m.table.markDirty(key)
			return nil //nolint:nilerr // an unreadable lease is deleted
		}
		m.table.put(e, false, now, 0)
		return nil
	})
}

// saveInterval is how often changes are saved.
const saveInterval = time.Minute

// save saves the changes. Errors are only logged because the leases are hints.
func (m *Map) save() {
	if m.cfg.Store == nil {
		return
	}
	changes := m.table.changes()
	if len(changes) == 0 {
		return
	}
	if err := m.cfg.Store.Save(changes); err != nil {
		m.log.Warn("failed to save leases", "err", err)
		for key := range changes {
			m.table.markDirty(key) // saved next time
		}
	}
}
