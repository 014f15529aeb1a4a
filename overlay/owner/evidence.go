package owner

import (
	"fmt"
	"slices"
	"time"

	"github.com/fxamacker/cbor/v2"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/overlay/lease"
	"peerd/overlay/ownership"
	"peerd/store"
)

// maxSent bounds the download times that are read of those that another peer sends: no owner has
// more (history.trim).
const maxSent = assign.HistorySize + assign.HistorySize/4

// record is the durable form of s. It contains the successor only from the commit on:
// until then a restart decides again.
func (s *subnet) record() (store.Subnet, error) {
	e := evidence{Samples: s.history.samples(), Moves: s.watch.Moves, Now: time.Now(),
		Deciding:   s.unit.Searches() && s.unit.Why != ownership.ReasonChosen,
		Unverified: s.unit.Doubt != 0 || s.unit.State == ownership.Yielding}
	for _, k := range s.replicas {
		e.Replicas = append(e.Replicas, k.id.String())
	}
	if e.Lenders = s.lenders; s.unit.Why == ownership.ReasonHours {
		e.Lenders = append(slices.Clone(s.lenders), s.lease.Owner.String())
	}
	evidence, err := cbor.Marshal(e)
	if err != nil {
		return store.Subnet{}, fmt.Errorf("owner: encode evidence: %w", err)
	}
	r := store.Subnet{
		Prefix: s.prefix, Phase: s.phase(), Lease: s.sealed, Epoch: s.lease.Epoch, Since: s.since,
		Evidence: evidence, Grant: s.grant, Estimations: s.estimations, Estimator: s.asked,
	}
	if s.unit.State == ownership.Granted {
		r.Successor = s.unit.To
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
		prefix:   r.Prefix,
		ourLease: ourLease{lease: l, sealed: r.Lease, since: r.Since},
		decision: decision{exclude: map[string]bool{}, estimations: r.Estimations,
			asked: r.Estimator, again: r.Estimator != ""},
		departure: departure{grant: r.Grant},
	}
	e := openEvidence(r.Evidence)
	s.unit, _ = s.unit.Step(ownership.Event{Kind: ownership.Loaded, Saved: unitOf(r, e.Unverified)})
	if s.unit.State != ownership.Granted {
		s.grant = nil // of a departure that has ended
	}
	s.history, s.watch.Moves = historyOf(e.Samples), e.Moves
	s.replicas = replicaPeersOf(e.Replicas)
	if len(s.replicas) > 0 {
		s.copied = time.Now()
	}
	s.lenders = lendersOf(e.Lenders, l.Owner.String())
	s.history.trim()
	return s, nil
}

// unitOf returns the state of a subnet that was saved.
func unitOf(r store.Subnet, unverified bool) ownership.Unit {
	u := ownership.Unit{State: ownership.Owned, Decided: r.Phase != store.PhaseDeciding}
	switch r.Phase {
	case store.PhaseDeciding:
		u.State = ownership.Deciding
	case store.PhaseCommitting:
		u.State, u.To = ownership.Granted, r.Successor
	}
	if unverified {
		u.Doubt = ownership.Stale
	}
	return u
}

// evidence is what is known of a subnet's downloads, on disk and on its way to a
// successor. It is only advice: invalid parts are ignored.
type evidence struct {
	Samples []coords.Sample `cbor:"1,keyasint"`
	Moves   []time.Time     `cbor:"2,keyasint,omitempty"` // see assign.ReviewState
	Now     time.Time       `cbor:"3,keyasint"`           // the clock that all times are of
	// Replicas are the replicas of the subnet. Deciding reports that its nearest peer is not
	// yet known.
	Replicas []string `cbor:"4,keyasint,omitempty"`
	Deciding bool     `cbor:"5,keyasint,omitempty"`
	// Unverified reports that the subnet may have another owner, which must be known before
	// it is used.
	Unverified bool `cbor:"6,keyasint,omitempty"`
	// Lenders are the peers that gave the subnet away as their working hours ended.
	Lenders []string `cbor:"7,keyasint,omitempty"`
}

// openEvidence decodes evidence.
func openEvidence(raw []byte) evidence {
	var e evidence
	if cbor.Unmarshal(raw, &e) != nil {
		e = evidence{}
	}
	e.Samples = e.Samples[max(0, len(e.Samples)-maxSent):]
	e.Moves = e.Moves[max(0, len(e.Moves)-assign.MaxMoves):]
	e.Replicas = e.Replicas[:min(len(e.Replicas), MaxReplicas)]
	return e
}

// shifted turns evidence by another peer's clock into what it is by ours, now.
func (e evidence) shifted(now time.Time) evidence {
	if e.Now.IsZero() {
		return evidence{Samples: e.Samples, Replicas: e.Replicas, Deciding: e.Deciding,
			Lenders: e.Lenders}
	}
	at := func(t time.Time) time.Time {
		if age := e.Now.Sub(t); !t.IsZero() && age > 0 {
			return now.Add(-age)
		}
		return now
	}
	out := evidence{Now: now, Replicas: e.Replicas, Deciding: e.Deciding, Lenders: e.Lenders}
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
