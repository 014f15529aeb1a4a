package search

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/store/index"
)

const (
	// readEvery is the time between two looks at the links in the index; they are read again if it
	// has changed, and for at most a 50th of the time.
	readEvery = 30 * time.Second
	readShare = 50
	// maxAsked is the number of hosts of a request, and maxMeet of a meeting.
	maxAsked, maxMeet = 240, 960
	// forgetAfter is how long what a peer said counts while it does not answer.
	forgetAfter = time.Hour
)

// ranker keeps the ranks of this peer. It meets one other peer after another, asks it for the
// links of its sources to the hosts here, and computes the ranks again.
type ranker struct {
	s        *Service
	met      map[peer.ID]meeting // the last of each
	last     peer.ID
	versions []uint64 // of the indexes when the links were read, with those of copies
	read     time.Time
	wait     time.Duration
}

// meeting is one that did not fail.
type meeting struct {
	at   time.Time
	next string // the first host of the next one, if there are more than maxMeet
}

func newRanker(s *Service) *ranker { return &ranker{s: s, met: map[peer.ID]meeting{}} }

// RunRanks computes the ranks of the sources in the index until ctx ends. A peer without an index
// has none. every is the time between two meetings, and five times that after a round in which no
// rank has changed by more than a thousandth.
func (s *Service) RunRanks(ctx context.Context, every time.Duration) error {
	if s.Local == nil || s.Local.Ranks == nil {
		return nil
	}
	r := newRanker(s)
	for still := 0; ; {
		change, err := r.turn(ctx)
		if err != nil && ctx.Err() == nil && s.Logger != nil {
			s.Logger.Debug("failed to exchange ranks", "err", err)
		}
		if still++; change > .001 {
			still = 0
		}
		wait := every
		if still > len(r.met) {
			wait *= 5
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// turn reads the links in the index, if need be, and meets a peer. It returns by how much a rank
// changed.
func (r *ranker) turn(ctx context.Context) (change float64, err error) {
	if now := time.Now(); now.Sub(r.read) >= r.wait {
		if err := r.readLinks(); err != nil {
			return 0, err
		}
		r.read, r.wait = now, max(readEvery, readShare*time.Since(now))
	}
	if p, ok := r.next(); ok {
		err = r.meet(ctx, p)
	}
	return r.s.Local.Ranks.Compute(), err
}

// readLinks reads the links in the index and in those of copies, if a page has changed.
func (r *ranker) readLinks() error {
	l, err := r.s.Local.begin(index.Query{}, nil)
	if err != nil {
		return err
	}
	defer l.close()
	l.join()
	var readers []*index.Reader
	var versions []uint64
	for _, p := range l.parts {
		readers, versions = append(readers, p.reader), append(versions, p.reader.Version())
	}
	if slices.Equal(versions, r.versions) {
		return nil
	}
	err = r.s.Local.Ranks.Read(readers...)
	if err == nil {
		r.versions = versions
	}
	return err
}

// next returns the peer that is met next: each in turn. What silent ones said is forgotten.
func (r *ranker) next() (next peer.AddrInfo, ok bool) {
	now := time.Now()
	maps.DeleteFunc(r.met, func(_ peer.ID, m meeting) bool { return now.Sub(m.at) > forgetAfter })
	r.s.Local.Ranks.Forget(func(p string) bool { _, ok := r.met[peer.ID(p)]; return ok })
	var first peer.AddrInfo
	for _, p := range r.s.Peers.Infos() {
		if first.ID == "" || p.ID < first.ID {
			first = p
		}
		if p.ID > r.last && (next.ID == "" || p.ID < next.ID) {
			next = p
		}
	}
	if next.ID == "" {
		next = first
	}
	r.last = next.ID
	return next, next.ID != ""
}

// meet asks a peer for links to the hosts here.
func (r *ranker) meet(ctx context.Context, p peer.AddrInfo) error {
	ranks := r.s.Local.Ranks
	hosts := ranks.Hosts()
	at, _ := slices.BinarySearch(hosts, r.met[p.ID].next)
	hosts = slices.Concat(hosts[at:], hosts[:at])
	next := ""
	if len(hosts) > maxMeet {
		next = hosts[maxMeet]
		hosts = hosts[:maxMeet]
	}
	if len(hosts) == 0 {
		return nil
	}
	part, err := r.s.dial(ctx, p, "", 0)
	if err != nil {
		return err
	}
	defer part.close()
	for some := range slices.Chunk(hosts, maxAsked) {
		said, err := r.ask(ctx, part, some)
		if err != nil {
			return err
		}
		ranks.Hear(string(p.ID), some, said)
	}
	r.met[p.ID] = meeting{time.Now(), next}
	return nil
}

func (r *ranker) ask(
	ctx context.Context, part participant, hosts []string,
) ([][]index.Linker, error) {
	ctx, cancel := context.WithTimeout(ctx, r.s.Timeout)
	defer cancel()
	return part.linking(ctx, hosts)
}
