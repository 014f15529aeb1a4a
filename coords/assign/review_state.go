package assign

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// ReviewConfig defines how a subnet with an owner is reviewed.
type ReviewConfig struct {
	// Move defines when it moves.
	Move MoveConfig
	// Every is the time between two reviews. > 0.
	Every time.Duration
	// ScoutShare bounds the scouts that are wasted in the long run, as a share of the pages: each
	// costs Review.Waste. > 0.
	ScoutShare float64
	// ScoutHope is the hope that a scout must have while none is saved up for. It falls to 0 when
	// ScoutMost are, and grows with the square of those that are owed. > 0.
	ScoutHope float64
	// ScoutMost is the number of wasted scouts that can be saved up for. > 0.
	ScoutMost int
}

// DefaultReviewConfig returns the parameters of the network: three pages in a hundred are wasted on
// scouts, and more while a peer may save much.
func DefaultReviewConfig() ReviewConfig {
	return ReviewConfig{Move: DefaultMoveConfig(), Every: 4 * time.Second,
		ScoutShare: 0.03, ScoutHope: 1. / 16, ScoutMost: 6}
}

// Validate returns an error that names every field that is out of range.
func (c ReviewConfig) Validate() error {
	var errs []error
	positive := func(ok bool, name string, value any) {
		if !ok {
			errs = append(errs, fmt.Errorf("assign: %s is %v, want > 0", name, value))
		}
	}
	positive(c.Every > 0, "Every", c.Every)
	positive(c.ScoutShare > 0, "ScoutShare", c.ScoutShare)
	positive(c.ScoutHope > 0, "ScoutHope", c.ScoutHope)
	positive(c.ScoutMost > 0, "ScoutMost", c.ScoutMost)
	return errors.Join(append(errs, c.Move.Validate())...)
}

// MaxMoves bounds the moves of a subnet that are remembered.
const MaxMoves = 12

// ReviewState is the state of the reviews of a subnet at its owner. The zero ReviewState
// is that of a subnet that was just decided. It must not be copied.
type ReviewState struct {
	// Moves are the times of the subnet's moves so far, oldest first; the next owner
	// receives them.
	Moves []time.Time

	reviewAt time.Time // not before
	better   time.Time // since when another peer is; zero if none is
	news     bool      // a page was fetched since the last scout
	fetched  int       // pages since the last review
	scout    string    // the peer that should fetch the next page
	waste    float64   // Review.Waste of the last review
	hope     float64   // of the last review
	saved    float64   // wasted scouts that pages have paid for; negative if they are yet to
	scoutAt  time.Time // no scout before
	opened   time.Time // when the choice of the owner was last opened again; zero: it was not
}

// Page records that a page was fetched by any peer.
func (w *ReviewState) Page() {
	w.news = true
	w.fetched++
}

// Due reports whether a review is due: it is time, and a page was fetched since the last
// scout or the last move.
func (w *ReviewState) Due(now time.Time) bool { return w.news && !now.Before(w.reviewAt) }

// CanScout reports whether a page can be spared for a scout with the hope of the last review.
func (w *ReviewState) CanScout(c ReviewConfig) bool {
	short := 1 - w.savings(c)/float64(c.ScoutMost)
	return w.hope >= c.ScoutHope*short*short
}

// savings returns the number of scouts that are saved up for.
func (w *ReviewState) savings(c ReviewConfig) float64 {
	return min(w.saved+c.ScoutShare*float64(w.fetched), float64(c.ScoutMost))
}

// Reviewed processes a review, made at now. It returns the peer to move to, or ""; the caller calls
// Moved when it moves. spread, in [0, 1), delays the next review by up to a quarter, so that
// subnets that arrived together are not reviewed together.
func (w *ReviewState) Reviewed(
	c ReviewConfig, r Review, now time.Time, spread float64,
) (move string) {
	w.reviewAt = now.Add(time.Duration(float64(c.Every) * (1 + spread/4)))
	move, w.better = c.Move.decide(r, w.better, w.Moves, now)
	if !w.opened.IsZero() && now.Sub(w.opened) < c.Move.Memory {
		move = r.Better
	}
	w.saved, w.fetched = w.savings(c), 0
	w.scout, w.hope, w.waste = "", r.Hope, r.Waste
	if move == "" && w.CanScout(c) && !now.Before(w.scoutAt) {
		w.scout = r.Scout
	}
	return move
}

// Reconsider opens the choice of the owner again, because it was not chosen, or because peers have
// come since. The next review also looks at peers that have never downloaded from the subnet.
// Within MoveConfig.Memory the subnet moves once as soon as a peer is Review.Better: an owner that
// was not compared with all others has no advantage over them.
func (w *ReviewState) Reconsider(now time.Time) { w.hope, w.opened = 1, now }

// Refused records that a scout refused the page that it was asked for. No other scout is sent until
// the given time. The subnet can still move to the peer that refused.
func (w *ReviewState) Refused(until time.Time) { w.scoutAt = until }

// Scout returns the peer that should fetch the next page, "" for the owner, and assigns
// the page to it.
func (w *ReviewState) Scout() string {
	who := w.scout
	if who != "" {
		w.scout, w.news = "", false
		w.saved -= w.waste
	}
	return who
}

// Moved records that the subnet leaves for another peer.
func (w *ReviewState) Moved(now time.Time) {
	all := append(slices.Clone(w.Moves), now)
	w.Moves = all[max(0, len(all)-MaxMoves):]
	w.better, w.opened = time.Time{}, time.Time{}
}
