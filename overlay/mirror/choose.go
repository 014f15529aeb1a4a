package mirror

import (
	"bytes"
	"crypto/sha256"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/order"
)

// fitness says whether a peer can be a mirror.
type fitness int

const (
	fit     fitness = iota
	silent          // it is a mirror and was not reached for long
	refuses         // it has refused, or was replaced, not long ago
)

// choose returns the peers that shall be mirrors: those of now that are fit, and then the
// candidates with the highest ranks. A silent mirror is replaced only if there is another
// candidate: its copy may be of use when it returns.
func choose(
	self peer.ID, count int, now []peer.ID, candidates []peer.ID, state func(peer.ID) fitness,
) []peer.ID {
	var chosen, lost []peer.ID
	for _, p := range now {
		switch state(p) {
		case fit:
			chosen = append(chosen, p)
		case silent:
			lost = append(lost, p)
		case refuses:
		}
	}
	for _, p := range ranked(self, candidates) {
		if p != self && state(p) == fit && !slices.Contains(chosen, p) {
			chosen = append(chosen, p)
		}
	}
	chosen = append(chosen, lost...)
	return chosen[:min(count, len(chosen))]
}

// ranked sorts peers by the digests of their IDs with that of the owner (Thaler and Ravishankar,
// "Using name-based mappings to increase hit rates", 1998), so that copies are spread evenly.
func ranked(owner peer.ID, all []peer.ID) []peer.ID {
	rank := map[peer.ID][sha256.Size]byte{}
	for _, p := range all {
		rank[p] = sha256.Sum256([]byte(owner + p))
	}
	all = slices.Clone(all)
	order.SortFunc(all, func(a, b peer.ID) int {
		x, y := rank[a], rank[b]
		return bytes.Compare(x[:], y[:])
	})
	return slices.Compact(all)
}
