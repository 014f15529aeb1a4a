package sim

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// Placements are the decisions of the strategy for another peer than the one that had claimed the
// subnet, and what became of them.
type Placements struct {
	// Chosen is the number of decisions, and Reached that of the subnets which the chosen peer
	// received. Stayed are the handovers that failed: the subnet stayed with its owner.
	Chosen, Reached, Stayed int
	// Delay is the sum, over the decisions with Reached, of the times from the claim to the
	// receipt by the chosen peer. Worst is the longest one.
	Delay, Worst time.Duration
	// Waits is the sum of the times from the decision to the receipt.
	Waits time.Duration
	// Unreached says which did not reach the chosen peer.
	Unreached []string
}

// add adds o.
func (p *Placements) add(o Placements) {
	p.Chosen += o.Chosen
	p.Reached += o.Reached
	p.Stayed += o.Stayed
	p.Delay += o.Delay
	p.Waits += o.Waits
	p.Worst = max(p.Worst, o.Worst)
	p.Unreached = append(p.Unreached, o.Unreached...)
}

func (p Placements) String() string {
	n := time.Duration(max(1, p.Reached))
	return fmt.Sprintf("%d of %d chosen peers received the subnet, %v after its claim on average, "+
		"%v at most, and %v after the decision; %d handovers failed", p.Reached, p.Chosen,
		(p.Delay / n).Round(10*time.Millisecond), p.Worst.Round(10*time.Millisecond),
		(p.Waits / n).Round(10*time.Millisecond), p.Stayed)
}

// ownership is a message of a peer's log about who owns a subnet.
type ownership struct {
	at     time.Duration // since the start of the simulation
	kind   ownershipKind
	by     int // the peer that logged it
	subnet string
	owner  string // the peer ID that was chosen
}

type ownershipKind uint8

const (
	ownClaimed ownershipKind = iota
	ownChose
	ownReceived
	ownStayed
)

// ownershipKinds maps the messages that are recorded to what they mean.
var ownershipKinds = map[string]ownershipKind{
	"claimed subnet":               ownClaimed,
	"chose owner":                  ownChose,
	"received subnet":              ownReceived,
	"handover failed; kept subnet": ownStayed,
}

// recorder is a log handler that records what a peer logs about the owners of subnets.
type recorder struct{ m *machine }

func (recorder) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (r recorder) WithAttrs([]slog.Attr) slog.Handler         { return r }
func (r recorder) WithGroup(string) slog.Handler              { return r }

func (r recorder) Handle(_ context.Context, rec slog.Record) error {
	kind, ok := ownershipKinds[rec.Message]
	if !ok {
		return nil
	}
	w := r.m.w
	e := ownership{at: w.clock(), kind: kind, by: r.m.n}
	rec.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "subnet":
			e.subnet = a.Value.String()
		case "owner":
			e.owner = a.Value.String()
		}
		return true
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ownerships = append(w.ownerships, e)
	return nil
}

// placements returns what became of the strategy's decisions.
func (w *world) placements() (p Placements) {
	w.mu.Lock()
	all := slices.Clone(w.ownerships)
	w.mu.Unlock()
	claimed := map[string]time.Duration{}
	for i, e := range all {
		switch e.kind {
		case ownClaimed:
			claimed[e.subnet] = e.at
		case ownStayed:
			p.Stayed++
		case ownChose:
			if e.owner == w.machines[e.by].id.String() {
				continue
			}
			p.Chosen++
			at, ok := received(all[i:], e.subnet, w.peerName(e.owner), w)
			if !ok {
				p.Unreached = append(p.Unreached, fmt.Sprintf("%s: %s, chosen by %s at %.3fs",
					e.subnet, w.peerName(e.owner), w.machines[e.by].name, e.at.Seconds()))
				continue
			}
			p.Reached++
			p.Delay += at - claimed[e.subnet]
			p.Waits += at - e.at
			p.Worst = max(p.Worst, at-claimed[e.subnet])
		}
	}
	return p
}

// received returns when the named peer received a subnet, by the messages since the decision.
func received(since []ownership, subnet, name string, w *world) (time.Duration, bool) {
	for _, e := range since {
		if e.kind == ownReceived && e.subnet == subnet && w.machines[e.by].name == name {
			return e.at, true
		}
	}
	return 0, false
}

// judgePlacements checks that without faults each subnet reaches the peer that the strategy chose,
// and no handover fails.
func (w *world) judgePlacements(s Schedule, r *Result, bad func(string, ...any)) {
	r.Placements = w.placements()
	if p := r.Placements; len(s.Faults) == 0 && (p.Reached < p.Chosen || p.Stayed > 0) {
		bad("%v; not: %s", p, strings.Join(p.Unreached, "; "))
	}
}
