package owner

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/overlay/lease"
	"peerd/store"
)

// maxSamples bounds what is kept of a subnet's download times.
const maxSamples = 96

// subnet is the state of one subnet of ours. Its fields are guarded by the
// Manager's mutex.
type subnet struct {
	prefix      netip.Prefix
	phase       store.Phase
	lease       lease.Lease
	sealed      []byte
	since       time.Time
	samples     []coords.Sample
	exclude     map[string]bool // asked and not reached
	estimations int             // fetches by others before the decision
	idleSince   time.Time       // nothing queued and nothing under way; zero when busy
	renewAt     time.Time
	to          string      // the heir while leaving
	probe       assign.Step // the last that the strategy asked for; no Probe: it was made
	asked       string      // who fetches for us; outlives a restart
	grant       []byte      // what was signed for it; not nil while PhaseCommitting
	lost        bool        // a better lease was met: to be yielded
	stale       bool        // too old to count: nothing is fetched until it is renewed
	moving      bool        // a goroutine hands it over, or yields it
	renewing    bool
	unsaved     bool // the disk lacks what was changed last

	watch    assign.Watch         // once it is decided
	avoid    map[string]time.Time // whom no scout is sent to, until when
	again    bool                 // asked before a restart: may be fetching still
	news     bool                 // samples came in since the proxy was fitted
	adapting bool                 // leaves because another peer is nearer now

	keepers   []keeper    // the shadows
	prefer    []string    // who is known to have much of it already
	syncing   bool        // the heir `to` is being brought in sync; meanwhile all goes on
	decided   bool        // `to` is the nearest peer
	lends     bool        // `to` has it until this peer's hours begin again
	lenders   []string    // who had it until their hours ended, the first one first
	revoked   time.Time   // when a witness last said that it is voted away; zero: not, or long ago
	by        lease.Lease // the lease by which it was lost
	suspected time.Time   // when a peer last said that it knows a better one

	armed  time.Time // since when the lease is read again now and then, see rivals.go
	readAt time.Time // when it is next; zero: not
	reads  int       // how often it was
	back   bool      // because somebody is back

	adding sync.WaitGroup // hosts being added; none begins while moving
}

// leaving says that the subnet is on its way to another peer: it takes no
// hosts and no URLs.
func (s *subnet) leaving() bool {
	return s.phase == store.PhaseCommitting || s.lost || (s.moving || s.to != "") && !s.syncing
}

// doubted says that the subnet may be another's by now: nothing is fetched, and
// nothing acknowledged, until that is known.
func (s *subnet) doubted() bool { return s.stale || !s.revoked.IsZero() }

// record is the durable form of s. The heir belongs to it only from the commit
// on: until then a restart decides anew.
func (s *subnet) record() (store.Subnet, error) {
	e := evidence{Samples: s.samples, Moves: s.watch.Moves, Now: time.Now(), Deciding: s.phase == store.PhaseDeciding && !s.decided, Doubt: s.lost || s.doubted()}
	for _, k := range s.keepers {
		e.Keepers = append(e.Keepers, k.id.String())
	}
	if e.Lenders = s.lenders; s.lends {
		e.Lenders = append(slices.Clone(s.lenders), s.lease.Owner.String())
	}
	evidence, err := cbor.Marshal(e)
	if err != nil {
		return store.Subnet{}, fmt.Errorf("owner: encode evidence: %w", err)
	}
	r := store.Subnet{
		Prefix: s.prefix, Phase: s.phase, Lease: s.sealed, Epoch: s.lease.Epoch, Since: s.since,
		Evidence: evidence, Grant: s.grant, Estimations: s.estimations, Asked: s.asked,
	}
	if s.phase == store.PhaseCommitting {
		r.To = s.to
	}
	return r, nil
}

// fromRecord is the inverse of record.
func fromRecord(r store.Subnet) (*subnet, error) {
	l, err := lease.OpenLease(r.Lease)
	if err != nil {
		return nil, fmt.Errorf("owner: subnet %v: %w", r.Prefix, err)
	}
	s := &subnet{
		prefix: r.Prefix, phase: r.Phase, lease: l, sealed: r.Lease, since: r.Since,
		exclude: map[string]bool{}, estimations: r.Estimations, to: r.To, grant: r.Grant, asked: r.Asked,
		again: r.Asked != "",
	}
	e := openEvidence(r.Evidence)
	s.samples, s.watch.Moves = e.Samples, e.Moves
	s.keepers, s.stale = keepersOf(e.Keepers), e.Doubt
	s.lenders = lendersOf(e.Lenders, l.Owner.String())
	s.trim()
	return s, nil
}

// evidence is what is known of a subnet's downloads, on disk and on its way to
// an heir. It is only advice: what is wrong with it is left out.
type evidence struct {
	Samples []coords.Sample `cbor:"1,keyasint"`
	Moves   []time.Time     `cbor:"2,keyasint,omitempty"` // see assign.Watch
	Now     time.Time       `cbor:"3,keyasint"`           // the clock that all times are of
	// Keepers are the peers that shadow the subnet, and Deciding says that its
	// nearest peer is still looked for.
	Keepers  []string `cbor:"4,keyasint,omitempty"`
	Deciding bool     `cbor:"5,keyasint,omitempty"`
	// Doubt says that it may be another's: not to be used before that is known.
	Doubt bool `cbor:"6,keyasint,omitempty"`
	// Lenders are the peers that gave the subnet away as their working hours ended.
	Lenders []string `cbor:"7,keyasint,omitempty"`
}

// openEvidence decodes evidence, or the bare samples that it once was.
func openEvidence(raw []byte) evidence {
	var e evidence
	if cbor.Unmarshal(raw, &e) != nil {
		e = evidence{}
		if cbor.Unmarshal(raw, &e.Samples) != nil {
			e.Samples = nil
		}
	}
	e.Moves = e.Moves[max(0, len(e.Moves)-assign.MovesKept):]
	e.Keepers = e.Keepers[:min(len(e.Keepers), MaxShadows)]
	return e
}

// shifted turns evidence by another peer's clock into what it is by ours, now.
func (e evidence) shifted(now time.Time) evidence {
	if e.Now.IsZero() {
		return evidence{Samples: e.Samples, Keepers: e.Keepers, Deciding: e.Deciding, Lenders: e.Lenders}
	}
	at := func(t time.Time) time.Time {
		if age := e.Now.Sub(t); !t.IsZero() && age > 0 {
			return now.Add(-age)
		}
		return now
	}
	out := evidence{Now: now, Keepers: e.Keepers, Deciding: e.Deciding, Lenders: e.Lenders}
	for _, x := range e.Samples {
		if !x.Taken.IsZero() {
			x.Taken = at(x.Taken)
		}
		out.Samples = append(out.Samples, x)
	}
	for _, t := range e.Moves {
		out.Moves = append(out.Moves, at(t))
	}
	return out
}

// observe keeps a sample.
func (s *subnet) observe(x coords.Sample) {
	s.samples, s.news = append(s.samples, x), true
	s.trim()
}

// trim bounds the samples: of each peer the newest, and some older ones.
func (s *subnet) trim() {
	if len(s.samples) > maxSamples+maxSamples/4 {
		s.samples = assign.History(s.samples, s.lease.Owner.String(), maxSamples)
	}
}

// Info is what the outside may know of a subnet.
type Info struct {
	Prefix      netip.Prefix
	Epoch       uint64
	Phase       store.Phase
	Proxy       *coords.Proxy
	Estimations int
	Since       time.Time
	Moves       int // made as the nearest peer changed, of late
	// Doubted says that it may be another's by now, as a witness has voted or the lease
	// could not be renewed: until that is known nothing is fetched there.
	Doubted bool
	// Shadows are the peers that keep a copy of all of it, but for what was
	// committed just now.
	Shadows []peer.ID
}

func (s *subnet) info() Info {
	i := Info{
		Prefix: s.prefix, Epoch: s.lease.Epoch, Phase: s.phase, Proxy: s.lease.Proxy,
		Estimations: s.estimations, Since: s.since, Moves: len(s.watch.Moves), Doubted: s.doubted() || s.lost,
	}
	for _, k := range s.keepers {
		if k.synced {
			i.Shadows = append(i.Shadows, k.id)
		}
	}
	return i
}
