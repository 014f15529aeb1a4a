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
//	initialized          -> marks a Store that has all votes of this peer
//	own                  -> this peer's witness sets in force
//	p/owner              -> the newest witness set known of an owner, sealed
//	v/owner/subnet       -> a vote against an owner
const (
	keyInitialized = "initialized"
	keyOwn         = "own"
	setPrefix      = "p/"
	votePrefix     = "v/"
)

func setKey(owner peer.ID) string { return setPrefix + owner.String() }

func voteKey(owner peer.ID, subnet netip.Prefix) string {
	return votePrefix + owner.String() + "/" + subnet.String()
}

// parseVoteKey is the inverse of voteKey.
func parseVoteKey(key string) (owner peer.ID, subnet netip.Prefix, err error) {
	rest, ok := strings.CutPrefix(key, votePrefix)
	name, prefix, cut := strings.Cut(rest, "/")
	if !ok || !cut {
		return "", subnet, ErrMessage
	}
	if owner, err = peer.Decode(name); err != nil {
		return "", subnet, err
	}
	subnet, err = netip.ParsePrefix(prefix)
	return owner, subnet, err
}

// storedVote is a vote in the Store. Since is in milliseconds since 1970.
type storedVote struct {
	Epoch uint64  `cbor:"1,keyasint"`
	To    peer.ID `cbor:"2,keyasint"`
	Since int64   `cbor:"3,keyasint"`
}

// storedState is the content of a Store at the start.
type storedState struct {
	uninitialized bool
	own           []sealedSet
	sets          map[peer.ID]sealedSet
	votes         map[peer.ID]map[netip.Prefix]storedVote
}

// load reads a Store. It fails if anything cannot be read: a lost vote could give a
// subnet two owners.
func load(st Store) (storedState, error) {
	k := storedState{uninitialized: true, sets: map[peer.ID]sealedSet{},
		votes: map[peer.ID]map[netip.Prefix]storedVote{}}
	err := st.Each(func(key string, val []byte) error {
		if err := k.add(key, val); err != nil {
			return fmt.Errorf("witness: read %q: %w", key, err)
		}
		return nil
	})
	return k, err
}

// add adds one value of the Store.
func (k *storedState) add(key string, val []byte) error {
	if key == keyInitialized {
		k.uninitialized = false
		return nil
	}
	if key == keyOwn {
		var sealed [][]byte
		if err := wire.Unmarshal(val, &sealed); err != nil {
			return err
		}
		for _, b := range sealed {
			p, err := lease.OpenWitnessSet(b)
			if err != nil {
				return err
			}
			k.own = append(k.own, sealedSet{p, b})
		}
		return nil
	}
	if rest, ok := strings.CutPrefix(key, setPrefix); ok {
		owner, err := peer.Decode(rest)
		if err != nil {
			return err
		}
		p, err := lease.OpenWitnessSet(val)
		k.sets[owner] = sealedSet{p, val}
		return err
	}
	owner, subnet, err := parseVoteKey(key)
	if err != nil {
		return err
	}
	var b storedVote
	if err := wire.Unmarshal(val, &b); err != nil {
		return err
	}
	if k.votes[owner] == nil {
		k.votes[owner] = map[netip.Prefix]storedVote{}
	}
	k.votes[owner][subnet] = b
	return nil
}

// restore copies the stored state to g. The age of a vote by this incarnation's clock is
// not known, so the votes count as new.
func (k storedState) restore(g *witnessState, now time.Time) {
	of := func(owner peer.ID) *watchedPeer {
		w := g.watched[owner]
		if w == nil {
			w = &watchedPeer{votes: map[netip.Prefix]*voteRecord{}}
			g.watched[owner] = w
		}
		return w
	}
	for owner, p := range k.sets {
		w := of(owner)
		w.set, w.sealed, w.durable, w.since = p.WitnessSet, p.sealed, true, now
	}
	for owner, votes := range k.votes {
		w := of(owner)
		for subnet, b := range votes {
			g.lastNum++
			g.voteCount++
			w.votes[subnet] = &voteRecord{epoch: b.Epoch, to: b.To, at: now,
				since: time.UnixMilli(b.Since), num: g.lastNum}
		}
	}
}

// values returns the present values of keys; nil where there is none. The writer calls it
// just before it writes, so that the last value written is the last one in memory,
// whichever caller asked for the write.
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

// value returns the present value of a key. The caller holds mu.
func (s *Service) value(key string) ([]byte, error) {
	if key == keyOwn {
		var all [][]byte
		for _, p := range s.owner.sets {
			all = append(all, p.sealed)
		}
		if s.pending != nil {
			all = append(all, s.pending.sealed)
		}
		return wire.Marshal(all)
	}
	if key == keyInitialized {
		return []byte{1}, nil
	}
	if rest, ok := strings.CutPrefix(key, setPrefix); ok {
		owner, err := peer.Decode(rest)
		if w := s.witness.watched[owner]; err == nil && w != nil && w.set.Seq > 0 {
			return w.sealed, nil
		}
		return nil, err
	}
	owner, subnet, err := parseVoteKey(key)
	if err != nil {
		return nil, err
	}
	w := s.witness.watched[owner]
	if w == nil || w.votes[subnet] == nil {
		return nil, nil
	}
	b := w.votes[subnet]
	return wire.Marshal(storedVote{b.epoch, b.to, b.since.UnixMilli()})
}

// onWritten records what is on disk now.
func (s *Service) onWritten(vals map[string][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, val := range vals {
		rest, ok := strings.CutPrefix(key, setPrefix)
		if !ok {
			continue
		}
		owner, err := peer.Decode(rest)
		if w := s.witness.watched[owner]; err == nil && w != nil &&
			string(w.sealed) == string(val) {
			w.durable = true
		}
	}
}
