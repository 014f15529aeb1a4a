package search

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/mirror"
	"peerd/store/index"
)

// errAbsent means that a peer does not answer, but others have copies of its archive.
var errAbsent = errors.New("the peer does not answer")

// named returns the peer that has named holder as the mirror of its archive.
func (s *Service) named(naming []byte, holder peer.ID) (peer.ID, error) {
	n, err := mirror.OpenNaming(naming, s.Network, time.Now())
	if err == nil && n.Mirror != holder {
		err = fmt.Errorf("%w: %s is named, not %s", ErrAnswer, n.Mirror, holder)
	}
	return n.Owner, err
}

// assignCopies has one copy of the archive of each peer that has not answered searched, and adds
// its counts to the sum. It returns members for the peers that were not asked.
func assignCopies(all []*member, sum *index.Counts) (others []*member) {
	absent := map[peer.ID]*member{}
	best := map[peer.ID]copyCounts{}
	for _, m := range all {
		absent[m.id] = m
	}
	for _, m := range all {
		if m.err != nil {
			continue
		}
		for _, c := range m.counts.Copies {
			a := absent[c.owner]
			if a == nil {
				a = &member{id: c.owner, err: errAbsent}
				absent[c.owner] = a
				others = append(others, a)
			}
			answered := a.err == nil || errors.Is(a.err, errNoIndex)
			if !answered && c.Indexed && (a.by == nil || c.better(best[c.owner])) {
				a.by, best[c.owner] = m, c
			}
		}
	}
	for owner, c := range best {
		sum.Add(c.Counts)
		by := absent[owner].by
		by.owners = append(by.owners, owner)
	}
	for _, m := range all {
		slices.Sort(m.owners)
	}
	return others
}

// better reports whether the copy is to be searched rather than another one of the same archive.
func (c *copyCounts) better(other copyCounts) bool {
	if c.Whole != other.Whole {
		return c.Whole
	}
	return c.Pages > other.Pages
}
