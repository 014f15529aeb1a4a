package witness

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
	"peerd/overlay/wire"
)

// The keys of a Store:
//
//	born                 -> (something) whoever has this key remembers its votes
//	own                  -> the panels of this peer that are in force
//	p/owner              -> the newest panel known of an owner, sealed
//	v/owner/subnet       -> a vote given against it
const (
	keyBorn    = "born"
	keyOwn     = "own"
	panelPath  = "p/"
	ballotPath = "v/"
)

func panelKey(owner peer.ID) string { return panelPath + owner.String() }

func ballotKey(owner peer.ID, subnet netip.Prefix) string {
	return ballotPath + owner.String() + "/" + subnet.String()
}

// ballotRecord is a vote on the disk. Since is in milliseconds after 1970.
type ballotRecord struct {
	Epoch uint64  `cbor:"1,keyasint"`
	To    peer.ID `cbor:"2,keyasint"`
	Since int64   `cbor:"3,keyasint"`
}

// kept is what a Store held at the start.
type kept struct {
	fresh   bool
	panels  []held
	known   map[peer.ID]held
	ballots map[peer.ID]map[netip.Prefix]ballotRecord
}

// load reads a Store. What cannot be read there is an error: a vote forgotten is a
// subnet with two owners.
func load(st Store) (kept, error) {
	k := kept{fresh: true, known: map[peer.ID]held{}, ballots: map[peer.ID]map[netip.Prefix]ballotRecord{}}
	err := st.Each(func(key string, val []byte) error {
		if err := k.take(key, val); err != nil {
			return fmt.Errorf("witness: read %q: %w", key, err)
		}
		return nil
	})
	return k, err
}

func (k *kept) take(key string, val []byte) error {
	if key == keyBorn {
		k.fresh = false
		return nil
	}
	if key == keyOwn {
		var sealed [][]byte
		if err := wire.Unmarshal(val, &sealed); err != nil {
			return err
		}
		for _, b := range sealed {
			p, err := lease.OpenPanel(b)
			if err != nil {
				return err
			}
			k.panels = append(k.panels, held{p, b})
		}
		return nil
	}
	if rest, ok := strings.CutPrefix(key, panelPath); ok {
		owner, err := peer.Decode(rest)
		if err != nil {
			return err
		}
		p, err := lease.OpenPanel(val)
		k.known[owner] = held{p, val}
		return err
	}
	rest, ok := strings.CutPrefix(key, ballotPath)
	name, prefix, cut := strings.Cut(rest, "/")
	if !ok || !cut {
		return ErrMessage
	}
	owner, err := peer.Decode(name)
	if err != nil {
		return err
	}
	subnet, err := netip.ParsePrefix(prefix)
	if err != nil {
		return err
	}
	var b ballotRecord
	if err := wire.Unmarshal(val, &b); err != nil {
		return err
	}
	if k.ballots[owner] == nil {
		k.ballots[owner] = map[netip.Prefix]ballotRecord{}
	}
	k.ballots[owner][subnet] = b
	return nil
}

// restore gives g what was kept. How old a vote is by this life's clock is not
// known, so it counts as new.
func (k kept) restore(g *guard, now time.Time) {
	of := func(owner peer.ID) *ward {
		w := g.wards[owner]
		if w == nil {
			w = &ward{ballots: map[netip.Prefix]*ballot{}}
			g.wards[owner] = w
		}
		return w
	}
	for owner, p := range k.known {
		w := of(owner)
		w.panel, w.sealed, w.durable = p.Panel, p.sealed, true
	}
	for owner, ballots := range k.ballots {
		w := of(owner)
		for subnet, b := range ballots {
			g.num++
			g.count++
			w.ballots[subnet] = &ballot{epoch: b.Epoch, to: b.To, at: now, since: time.UnixMilli(b.Since), num: g.num}
		}
	}
}

// values returns what belongs under keys at this moment; nil for nothing. It is what
// the writer asks just before it writes, so that the last word on the disk
// is the last one in memory, whoever wanted it there.
func (s *Service) values(keys map[string]bool) (map[string][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	vals := make(map[string][]byte, len(keys))
	for key := range keys {
		val, err := s.value(key)
		if err != nil {
			return nil, err
		}
		vals[key] = val
	}
	return vals, nil
}

// value returns what belongs under key. With mu held.
func (s *Service) value(key string) ([]byte, error) {
	if key == keyOwn {
		var all [][]byte
		for _, p := range s.holder.panels {
			all = append(all, p.sealed)
		}
		if s.pending != nil {
			all = append(all, s.pending.sealed)
		}
		return wire.Marshal(all)
	}
	if key == keyBorn {
		return []byte{1}, nil
	}
	if rest, ok := strings.CutPrefix(key, panelPath); ok {
		owner, err := peer.Decode(rest)
		if w := s.guard.wards[owner]; err == nil && w != nil && w.panel.Seq > 0 {
			return w.sealed, nil
		}
		return nil, err
	}
	name, prefix, _ := strings.Cut(strings.TrimPrefix(key, ballotPath), "/")
	owner, err := peer.Decode(name)
	if err != nil {
		return nil, err
	}
	subnet, err := netip.ParsePrefix(prefix)
	if err != nil {
		return nil, err
	}
	w := s.guard.wards[owner]
	if w == nil || w.ballots[subnet] == nil {
		return nil, nil
	}
	b := w.ballots[subnet]
	return wire.Marshal(ballotRecord{b.epoch, b.to, b.since.UnixMilli()})
}

// written notes what is on the disk now.
func (s *Service) written(vals map[string][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, val := range vals {
		rest, ok := strings.CutPrefix(key, panelPath)
		if !ok {
			continue
		}
		owner, err := peer.Decode(rest)
		if w := s.guard.wards[owner]; err == nil && w != nil && string(w.sealed) == string(val) {
			w.durable = true
		}
	}
}
