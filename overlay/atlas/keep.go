package atlas

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/overlay/lease"
	"peerd/overlay/wire"
)

// A Keeper keeps what is known of others' subnets for the next start. It is
// never called concurrently.
type Keeper interface {
	// Save writes values under keys of at most 50 bytes; nil removes one.
	Save(map[string][]byte) error
	// Each calls fn for all that was saved, until fn returns an error.
	Each(fn func(key string, val []byte) error) error
}

// kept is the durable form of an entry, under its prefix.
type kept struct {
	Owner   peer.ID       `cbor:"1,keyasint"`
	Epoch   uint64        `cbor:"2,keyasint"`
	Issued  int64         `cbor:"3,keyasint"` // Unix milliseconds, as is Expires
	Expires int64         `cbor:"4,keyasint"`
	Proxy   *coords.Proxy `cbor:"5,keyasint,omitempty"`
}

func (e *entry) marshal() ([]byte, error) {
	l := e.lease
	return wire.Marshal(kept{l.Owner, l.Epoch, l.Issued.UnixMilli(), l.Expires.UnixMilli(), l.Proxy})
}

// unmarshal is the inverse. Signatures were checked before it was saved.
func unmarshal(key string, val []byte) (*entry, error) {
	p, err := netip.ParsePrefix(key)
	if err != nil {
		return nil, fmt.Errorf("atlas: %w", err)
	}
	var k kept
	if err := wire.Unmarshal(val, &k); err != nil {
		return nil, err
	}
	if err := k.Owner.Validate(); err != nil {
		return nil, fmt.Errorf("atlas: owner of %v: %w", p, err)
	}
	if k.Proxy != nil {
		if err := k.Proxy.Validate(len(k.Proxy.At.Vec)); err != nil {
			return nil, fmt.Errorf("atlas: %v: %w", p, err)
		}
	}
	at := func(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
	return newEntry(lease.Lease{
		Subnet: p, Owner: k.Owner, Epoch: k.Epoch, Issued: at(k.Issued), Expires: at(k.Expires), Proxy: k.Proxy,
	}), nil
}

// load takes in what was saved. What cannot be read, or is too old, is
// removed with the next save.
func (a *Atlas) load(now time.Time) error {
	return a.cfg.Keeper.Each(func(key string, val []byte) error {
		e, err := unmarshal(key, val)
		if err != nil || now.Sub(e.lease.Expires) > keepFor {
			a.table.touch(key)
			return nil
		}
		a.table.put(e, false, now, 0)
		return nil
	})
}

// keepEvery is how often changes are saved.
const keepEvery = time.Minute

// save writes down what has changed. An error is only logged: it is a hint that
// is lost.
func (a *Atlas) save() {
	if a.cfg.Keeper == nil {
		return
	}
	changes := a.table.changes()
	if len(changes) == 0 {
		return
	}
	if err := a.cfg.Keeper.Save(changes); err != nil {
		a.log.Warn("what is known of subnets was not written", "err", err)
	}
}
