package assign

import (
	"errors"
	"fmt"
	"time"
)

// spell is how long passing slowness lasts.
const spell = 45 * time.Second

// MoveConfig defines when a subnet moves to a better peer.
type MoveConfig struct {
	// Hold is the time for which a peer must have been better without interruption. Each move
	// within Memory but the first doubles it. > 0.
	Hold time.Duration
	// Spend is the error rate: the probability of being needless that a move may have. Each move
	// within Memory halves it, so that fewer than twice as many are needless in Memory, however
	// often the subnet moves. > 0.
	Spend float64
	// Memory is the time for which a move is remembered. > 0.
	Memory time.Duration
}

// DefaultMoveConfig returns the parameters of the network. review_sim_test.go measures
// their cost: needless moves, and the time to a useful one.
func DefaultMoveConfig() MoveConfig {
	return MoveConfig{Hold: spell, Spend: 0.005, Memory: time.Hour}
}

// Validate returns an error that names every field that is out of range.
func (c MoveConfig) Validate() error {
	var errs []error
	check := func(ok bool, name string, value any) {
		if !ok {
			errs = append(errs, fmt.Errorf("assign: %s is %v, want > 0", name, value))
		}
	}
	check(c.Hold > 0, "Hold", c.Hold)
	check(c.Spend > 0, "Spend", c.Spend)
	check(c.Memory > 0, "Memory", c.Memory)
	return errors.Join(errs...)
}

// decide returns the peer to move to by a review at now, or "", and since when another peer has
// been better: since before, or zero if none is. moves are the times of the subnet's earlier moves.
func (c MoveConfig) decide(
	r Review, since time.Time, moves []time.Time, now time.Time,
) (to string, better time.Time) {
	if r.Better == "" {
		return "", time.Time{}
	}
	if since.IsZero() {
		since = now
	}
	if hold, allowed := c.after(moves, now); now.Sub(since) >= hold && r.Doubt <= allowed {
		to = r.Better
	}
	return to, since
}

// after returns the time for which a peer must have been better after these moves, and the
// probability of being needless that the next move may have.
func (c MoveConfig) after(moves []time.Time, now time.Time) (hold time.Duration, allowed float64) {
	hold, allowed = c.Hold/2, c.Spend
	for _, at := range moves {
		if now.Sub(at) <= c.Memory {
			hold *= 2
			allowed /= 2
		}
	}
	return max(hold, c.Hold), allowed
}
