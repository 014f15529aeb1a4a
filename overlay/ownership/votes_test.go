package ownership_test

import (
	"testing"
	"time"

	"peerd/overlay/ownership"
)

// The witnesses of a newer set do not uphold a unit that those of an older one may have voted away:
// only a renewal of its lease shows what became of their votes.
func TestRecountedAfterRetirement(t *testing.T) {
	t.Parallel()
	now := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	enough := func(ownership.Votes) bool { return false }
	for _, c := range []struct {
		name    string
		doubt   ownership.Doubt
		retired time.Duration // after the vote
		want    ownership.EventKind
	}{
		{"no set is retired", ownership.VotedAway, -time.Hour, ownership.Upheld},
		{"retired when the witness told", ownership.VotedAway, 0, 0},
		{"retired later", ownership.VotedAway, time.Second, 0},
		{"not doubted", 0, time.Second, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			vs, _ := ownership.Votes{}.Add("witness", now, true)
			u := ownership.Unit{State: ownership.Owned, Doubt: c.doubt}
			_, got := vs.Recounted(u, now.Add(5*time.Second), time.Minute, 35*time.Second, enough,
				now.Add(c.retired))
			if got != c.want {
				t.Errorf("Recounted() = %v, want %v", got, c.want)
			}
		})
	}
}
