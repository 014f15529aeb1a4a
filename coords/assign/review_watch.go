package assign

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"peerd/coords"
)

// WatchConfig says how a decided subnet is watched.
type WatchConfig struct {
	// Patience says when it moves.
	Patience PatienceConfig
	// Every is the time between two reviews. > 0.
	Every time.Duration
	// A scout goes when the last one was ScoutEvery ago and ScoutPages pages were
	// fetched since; after half of both for some minutes after a move. > 0 both.
	ScoutEvery time.Duration
	ScoutPages int
	// UrgentEvery and UrgentPages are the same while something speaks for a move
	// that the better peer has to confirm, or the owner became slow; three times
	// that while another seems better and is too little known. > 0 both.
	UrgentEvery time.Duration
	UrgentPages int
	// UrgentShare bounds the urgent scouts in the long run, as a share of the pages,
	// and UrgentMost those in a row: half of both are kept for an owner that became
	// slow. > 0 both.
	UrgentShare float64
	UrgentMost  int
}

// DefaultWatch returns the parameters of the network: one page in fifty is a
// scout's, one in a hundred more where peers are hard to tell apart, and one in three for
// the time that it takes to confirm a move, 24 at most.
func DefaultWatch() WatchConfig {
	return WatchConfig{
		Patience: DefaultPatience(), Every: 4 * time.Second,
		ScoutEvery: 15 * time.Second, ScoutPages: 50, UrgentEvery: 2 * time.Second, UrgentPages: 2,
		UrgentShare: 0.01, UrgentMost: 24,
	}
}

// Validate names every field that is out of its range.
func (c WatchConfig) Validate() error {
	var errs []error
	positive := func(ok bool, name string, value any) {
		if !ok {
			errs = append(errs, fmt.Errorf("assign: %s is %v, want > 0", name, value))
		}
	}
	positive(c.Every > 0, "Every", c.Every)
	positive(c.ScoutEvery > 0, "ScoutEvery", c.ScoutEvery)
	positive(c.ScoutPages > 0, "ScoutPages", c.ScoutPages)
	positive(c.UrgentEvery > 0, "UrgentEvery", c.UrgentEvery)
	positive(c.UrgentPages > 0, "UrgentPages", c.UrgentPages)
	positive(c.UrgentShare > 0, "UrgentShare", c.UrgentShare)
	positive(c.UrgentMost > 0, "UrgentMost", c.UrgentMost)
	return errors.Join(append(errs, c.Patience.Validate())...)
}

// doubtSlack is how many times as seldom a peer is asked that may be better and
// may not.
const doubtSlack = 3

// movedLately is how long after a move scouts go twice as often: what drove the
// subnet away may be over soon.
const movedLately = 10 * time.Minute

// MovesKept bounds the moves of a subnet that are remembered.
const MovesKept = 12

// Watch is the state of a watched subnet at its owner. The zero Watch is that
// of one that was just decided on. It is no value: one owner, one Watch.
type Watch struct {
	// Patience is what speaks for a move.
	Patience Patience
	// Moves are the times of the subnet's moves so far, oldest first; they go
	// with it to the next owner.
	Moves []time.Time

	reviewAt time.Time // not before
	scoutAt  time.Time // of the last scout
	pages    int       // fetched since
	scout    string    // who should fetch the next page
	urgent   int       // one of spent, from 1 on, if it is urgent
	fetched  int       // since the last review
	// spent are the urgent scouts that no pages have made up for yet: those on a
	// guess, and those as the owner became slow.
	spent [2]float64
}

// Page takes in that a page was fetched, by whomever.
func (w *Watch) Page() {
	w.pages++
	w.fetched++
}

// Due says whether a review is due: it is time, and a page was fetched since the
// last scout or the last move.
func (w *Watch) Due(now time.Time) bool { return w.pages > 0 && !now.Before(w.reviewAt) }

// CanScout says whether a page can be spared for a scout now.
func (w *Watch) CanScout(c WatchConfig, now time.Time) bool {
	since := now.Sub(w.scoutAt)
	if n := len(w.Moves); n > 0 && now.Sub(w.Moves[n-1]) < movedLately {
		c.ScoutEvery, c.ScoutPages = c.ScoutEvery/2, (c.ScoutPages+1)/2
	}
	return since >= c.ScoutEvery && w.pages >= c.ScoutPages
}

// Reviewed takes in a review, made at now of the samples of a subnet that self
// owns. It returns the peer to
// move to, or ""; the caller says Moved when it does. spread, in
// [0, 1), puts the next review off by up to a quarter, so that subnets that came
// together are not looked at together.
func (w *Watch) Reviewed(c WatchConfig, self string, r Review, samples []coords.Sample, now time.Time, spread float64) (move string) {
	w.reviewAt = now.Add(time.Duration(float64(c.Every) * (1 + spread/4)))
	w.Patience, move = w.Patience.Consider(c.Patience, self, r, samples, w.Moves, now)
	for i := range w.spent {
		w.spent[i] = max(0, w.spent[i]-c.UrgentShare/2*float64(w.fetched))
	}
	w.fetched, w.scout, w.urgent = 0, "", 0
	if move != "" {
		return move
	}
	since := now.Sub(w.scoutAt)
	urgent, slack := r.Maybe, doubtSlack
	if w.Patience.Running() {
		slack = 1
		if r.Better != "" {
			urgent = r.Better
		}
	}
	account := 0
	if r.Worse {
		slack = 1
		if w.spent[1] < float64(c.UrgentMost)/2 {
			account = 1
		}
	}
	if w.spent[account] >= float64(c.UrgentMost)/2 {
		urgent = ""
	}
	switch {
	case urgent != "" && since >= time.Duration(slack)*c.UrgentEvery && w.pages >= slack*c.UrgentPages:
		w.scout, w.urgent = urgent, account+1
	case w.CanScout(c, now):
		w.scout = r.Scout
	}
	if urgent != "" { // its answer is waited for
		w.reviewAt = now.Add(min(c.Every, c.UrgentEvery))
	}
	return ""
}

// Scout returns who should fetch the next page, "" for the owner, and takes that
// page for given to it.
func (w *Watch) Scout(now time.Time) string {
	who := w.scout
	if who != "" {
		if w.urgent > 0 {
			w.spent[w.urgent-1]++
		}
		w.scout, w.scoutAt, w.pages = "", now, 0
	}
	return who
}

// Moved takes in that the subnet leaves for another peer. If that does not
// come about, it rests here as it would have there.
func (w *Watch) Moved(now time.Time) {
	all := append(slices.Clone(w.Moves), now)
	w.Moves = all[max(0, len(all)-MovesKept):]
	w.Patience = Patience{Last: now}
}
