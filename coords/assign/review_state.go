package assign

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"peerd/coords"
)

// ReviewConfig defines how a subnet with an owner is reviewed.
type ReviewConfig struct {
	// Move defines when it moves.
	Move MoveConfig
	// Every is the time between two reviews. > 0.
	Every time.Duration
	// A scout is sent if the last one was ScoutEvery ago and ScoutPages pages were fetched
	// since; for some minutes after a move, after half of both. > 0 both.
	ScoutEvery time.Duration
	ScoutPages int
	// Half of Every and UrgentPages are used instead while a better peer has to be confirmed
	// or the owner became slow; three times both while another peer appears better with too
	// few samples. > 0.
	UrgentPages int
	// UrgentShare bounds the urgent scouts in the long run, as a share of the pages, and
	// UrgentMost those in a row. Half of the share and as many in a row are reserved for an owner
	// that became slow. > 0 both.
	UrgentShare float64
	UrgentMost  int
}

// DefaultReviewConfig returns the parameters of the network: one page in fifty goes to a
// scout, one in a hundred more where peers are hard to distinguish, and one in three while a move
// is confirmed, at most as many as a comparison uses.
func DefaultReviewConfig() ReviewConfig {
	return ReviewConfig{
		Move: DefaultMoveConfig(), Every: windowSpan,
		ScoutEvery: windowNear, ScoutPages: scoutPages, UrgentPages: 2,
		UrgentShare: urgentShare, UrgentMost: windowMax,
	}
}

const (
	// scoutPages is the number of pages between two scouts, and urgentShare the share of pages
	// that may be urgent ones beside them.
	scoutPages  = 50
	urgentShare = 0.01
	// scoutShare is the share of pages that scouts fetch.
	scoutShare = 1.0/scoutPages + urgentShare
)

// Validate returns an error that names every field that is out of range.
func (c ReviewConfig) Validate() error {
	var errs []error
	positive := func(ok bool, name string, value any) {
		if !ok {
			errs = append(errs, fmt.Errorf("assign: %s is %v, want > 0", name, value))
		}
	}
	positive(c.Every > 0, "Every", c.Every)
	positive(c.ScoutEvery > 0, "ScoutEvery", c.ScoutEvery)
	positive(c.ScoutPages > 0, "ScoutPages", c.ScoutPages)
	positive(c.UrgentPages > 0, "UrgentPages", c.UrgentPages)
	positive(c.UrgentShare > 0, "UrgentShare", c.UrgentShare)
	positive(c.UrgentMost > 0, "UrgentMost", c.UrgentMost)
	return errors.Join(append(errs, c.Move.Validate())...)
}

// unclearSlack is the factor by which scouts are rarer for a peer that is not clearly
// better.
const unclearSlack = 3

// MaxMoves bounds the moves of a subnet that are remembered.
const MaxMoves = 12

// ReviewState is the state of the reviews of a subnet at its owner. The zero ReviewState
// is that of a subnet that was just decided. It must not be copied.
type ReviewState struct {
	// Move is the evidence for a move.
	Move MoveState
	// Moves are the times of the subnet's moves so far, oldest first; the next owner
	// receives them.
	Moves []time.Time

	reviewAt time.Time // not before
	scoutAt  time.Time // of the last scout
	pages    int       // fetched since
	scout    string    // the peer that should fetch the next page
	urgent   int       // 1 + index of spent if scout is urgent
	fetched  int       // since the last review
	// spent are the urgent scouts that are not yet balanced by pages: those for a peer that
	// may be better, and those because the owner became slow.
	spent [2]float64
}

// Page records that a page was fetched by any peer.
func (w *ReviewState) Page() {
	w.pages++
	w.fetched++
}

// Due reports whether a review is due: it is time, and a page was fetched since the last
// scout or the last move.
func (w *ReviewState) Due(now time.Time) bool { return w.pages > 0 && !now.Before(w.reviewAt) }

// CanScout reports whether a page can be spared for a scout now.
func (w *ReviewState) CanScout(c ReviewConfig, now time.Time) bool {
	since := now.Sub(w.scoutAt)
	if n := len(w.Moves); n > 0 && now.Sub(w.Moves[n-1]) < longAgo {
		c.ScoutEvery, c.ScoutPages = c.ScoutEvery/2, (c.ScoutPages+1)/2
	}
	return since >= c.ScoutEvery && w.pages >= c.ScoutPages
}

// Reviewed processes a review, made at now from the samples of a subnet that self owns.
// It returns the peer to move to, or ""; the caller calls Moved when it moves. spread,
// in [0, 1), delays the next review by up to a quarter, so that subnets that arrived
// together are not reviewed together.
func (w *ReviewState) Reviewed(
	c ReviewConfig, self string, r Review, samples []coords.Sample, now time.Time, spread float64,
) (move string) {
	w.reviewAt = now.Add(time.Duration(float64(c.Every) * (1 + spread/4)))
	w.Move, move = w.Move.Consider(c.Move, self, r, samples, w.Moves, now)
	for i := range w.spent {
		w.spent[i] = max(0, w.spent[i]-c.UrgentShare/2*float64(w.fetched))
	}
	w.fetched, w.scout, w.urgent = 0, "", 0
	if move != "" {
		return move
	}
	since := now.Sub(w.scoutAt)
	urgent, slack := r.Maybe, unclearSlack
	if w.Move.Running() {
		slack = 1
		if r.Better != "" {
			urgent = r.Better
		}
	}
	account := 0
	if r.Worse {
		slack = 1
		if w.spent[1] < float64(c.UrgentMost) {
			account = 1
		}
	}
	if w.spent[account] >= float64(c.UrgentMost) {
		urgent = ""
	}
	switch {
	case urgent != "" && since >= time.Duration(slack)*c.Every/2 &&
		w.pages >= slack*c.UrgentPages:
		w.scout, w.urgent = urgent, account+1
	case w.CanScout(c, now):
		w.scout = r.Scout
	}
	if urgent != "" { // its answer is awaited
		w.reviewAt = now.Add(c.Every / 2)
	}
	return ""
}

// Scout returns the peer that should fetch the next page, "" for the owner, and assigns
// the page to it.
func (w *ReviewState) Scout(now time.Time) string {
	who := w.scout
	if who != "" {
		if w.urgent > 0 {
			w.spent[w.urgent-1]++
		}
		w.scout, w.scoutAt, w.pages = "", now, 0
	}
	return who
}

// Moved records that the subnet leaves for another peer. If that fails, the subnet has
// the same cooldown here.
func (w *ReviewState) Moved(now time.Time) {
	all := append(slices.Clone(w.Moves), now)
	w.Moves = all[max(0, len(all)-MaxMoves):]
	w.Move = MoveState{Last: now}
}
