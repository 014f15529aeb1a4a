package witness

import (
	"context"
	"fmt"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
)

// maxLookup is how many peers are asked for an owner's witness set: its witnesses are
// the first by rendezvous hashing, apart from peers that have come or gone since.
const maxLookup = 16

// setQuery asks for the newest witness set of an owner that is known.
type setQuery struct {
	Owner peer.ID `cbor:"1,keyasint"`
}

// setReply is the answer, without a set if none is known.
type setReply struct {
	Set []byte `cbor:"1,keyasint,omitempty"`
}

// openSet opens a sealed witness set of a network.
func openSet(network string, sealed []byte) (lease.WitnessSet, error) {
	p, err := lease.OpenWitnessSet(sealed)
	if err == nil && p.Network != network {
		err = fmt.Errorf("%w: %.100q", lease.ErrNetwork, p.Network)
	}
	return p, err
}

// WitnessSetOf returns the newest witness set of another owner, sealed, that this peer or
// one of the owner's likely witnesses knows. It is for peers that have to take over from
// the owner and have not received the set. Nil means that none was found. It asks up to
// maxLookup peers at once, and takes Interval if some of them do not answer.
func (s *Service) WitnessSetOf(ctx context.Context, owner peer.ID) []byte {
	present := slices.Clone(s.cfg.Node.LivePeers())
	(&ownerState{self: owner}).rank(present)
	present = slices.DeleteFunc(present, func(id peer.ID) bool {
		return id == s.self || id == owner
	})
	present = present[:min(len(present), maxLookup)]
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Interval)
	defer cancel()
	got := make(chan []byte, len(present)+1)
	for _, id := range present {
		go func() { // ends with ctx
			r, err := s.transport.call(ctx, id, request{SetQuery: &setQuery{owner}})
			if err != nil || r.Set == nil {
				got <- nil
				return
			}
			got <- r.Set.Set
		}()
	}
	got <- s.onSetQuery(setQuery{owner}).Set
	var best lease.WitnessSet
	var sealed []byte
	for range len(present) + 1 {
		raw := <-got
		if len(raw) == 0 || len(raw) > lease.MaxSealedWitnessSet {
			continue
		}
		p, err := openSet(s.cfg.Network, raw)
		if err == nil && p.Owner == owner && p.Seq > best.Seq {
			best, sealed = p, raw
		}
	}
	return sealed
}

// onSetQuery answers a setQuery.
func (s *Service) onSetQuery(x setQuery) setReply {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.witness.watched[x.Owner]; w != nil {
		return setReply{w.sealed}
	}
	return setReply{}
}
