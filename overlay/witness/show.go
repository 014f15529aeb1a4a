package witness

import (
	"context"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
)

// maxShow is how many peers are asked for another's panel: its witnesses are the
// first by rendezvous hashing, but for those that came later or have gone.
const maxShow = 16

// show asks for the newest panel of an owner that is known.
type show struct {
	Owner peer.ID `cbor:"1,keyasint"`
}

// shown is the answer: nothing if none is known.
type shown struct {
	Panel []byte `cbor:"1,keyasint,omitempty"`
}

// PanelOf returns the newest panel of another owner that this peer or one of those
// that may be its witnesses knows, sealed: for those who have to take over from it
// and were never told. Nil means that nobody knows one. It asks up to maxShow
// peers at once, and takes a few seconds if some of them do not answer.
func (s *Service) PanelOf(ctx context.Context, owner peer.ID) []byte {
	present := slices.Clone(s.cfg.Peers())
	(&holder{self: owner}).rank(present)
	present = slices.DeleteFunc(present, func(id peer.ID) bool { return id == s.self || id == owner })
	present = present[:min(len(present), maxShow)]
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Interval)
	defer cancel()
	got := make(chan []byte, len(present)+1)
	for _, id := range present {
		go func() { // ends with ctx
			r, err := s.link.call(ctx, id, request{Show: &show{owner}})
			if err != nil || r.Shown == nil {
				got <- nil
				return
			}
			got <- r.Shown.Panel
		}()
	}
	got <- s.onShow(show{owner}).Panel
	var best lease.Panel
	var sealed []byte
	for range len(present) + 1 {
		raw := <-got
		if len(raw) == 0 || len(raw) > lease.MaxPanel {
			continue
		}
		if p, err := lease.OpenPanel(raw); err == nil && p.Owner == owner && p.Seq > best.Seq {
			best, sealed = p, raw
		}
	}
	return sealed
}

// onShow answers from memory.
func (s *Service) onShow(x show) shown {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.guard.wards[x.Owner]; w != nil {
		return shown{w.sealed}
	}
	return shown{}
}
