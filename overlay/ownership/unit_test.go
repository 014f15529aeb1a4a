package ownership_test

import (
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"pgregory.net/rapid"

	_ "peerd/internal/rapidtest"
	"peerd/overlay/ownership"
)

// anyEvent draws an event.
func anyEvent(t *rapid.T) ownership.Event {
	saved := []ownership.Unit{
		{State: ownership.Deciding}, {State: ownership.Owned, Decided: true},
		{State: ownership.Granted, Decided: true, To: "b"},
		{State: ownership.Owned, Decided: true, Doubt: ownership.Stale},
	}
	return ownership.Event{
		Kind:    ownership.EventKind(rapid.IntRange(1, int(ownership.Renewed)).Draw(t, "kind")),
		To:      rapid.SampledFrom([]string{"", "b", "c"}).Draw(t, "to"),
		Why:     ownership.Reason(rapid.IntRange(0, 3).Draw(t, "why")),
		Decided: rapid.Bool().Draw(t, "decided"),
		Saved:   rapid.SampledFrom(saved).Draw(t, "saved"),
		Quorum:  rapid.Bool().Draw(t, "quorum"),
		At:      scriptStart.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "at")) * time.Second),
		Revive:  revive,
	}
}

// TestStepKeepsItsWord gives random events to a unit and checks what the package promises.
func TestStepKeepsItsWord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var u ownership.Unit
		paused := true // as far as the actions tell
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			e := anyEvent(t)
			is, acts := u.Step(e)
			if !ownership.Listed(u.State, e.Kind, is.State) {
				t.Fatalf("the table has no way from %v by %v to %v", u.State, e.Kind, is.State)
			}
			for _, a := range acts {
				switch a {
				case ownership.Pause:
					paused = true
				case ownership.Resume:
					paused = false
				}
			}
			if is.State != ownership.None && paused == is.Works() {
				t.Fatalf("%v: paused is %v after %v", is, paused, e.Kind)
			}
			if is.State == ownership.Granted && u.State != ownership.Granted &&
				e.Kind != ownership.Loaded {
				if u.State != ownership.Closed || u.Doubt != 0 || !e.Quorum ||
					!slices.Contains(acts, ownership.Save) {
					t.Fatalf("granted from %v, quorum lease %v, actions %v", u, e.Quorum, acts)
				}
			}
			if u.State == ownership.Granted && is.Works() && e.Kind != ownership.Reclaimed {
				t.Fatalf("works again after the grant by %v", e.Kind)
			}
			if u.State == ownership.Yielding && is.State != ownership.Yielding &&
				is.State != ownership.None {
				t.Fatalf("%v by %v although another peer has a better lease", is, e.Kind)
			}
			if u.Doubt != 0 && is.Works() && !slices.Contains([]ownership.EventKind{
				ownership.Renewed, ownership.Upheld}, e.Kind) {
				t.Fatalf("works again by %v in spite of %v", e.Kind, u.Doubt)
			}
			if (is.To != "") != (is.State >= ownership.Copying && is.State <= ownership.Granted) &&
				is.State != ownership.Yielding {
				t.Fatalf("%v to %q", is.State, is.To)
			}
			u = is
		}
	})
}

// TestVotes follows the votes of two witnesses.
func TestVotes(t *testing.T) {
	at := func(s int) time.Time { return scriptStart.Add(time.Duration(s) * time.Second) }
	var vs ownership.Votes
	add := func(by string, s int, fresh, want bool) {
		t.Helper()
		next, first := vs.Add(peer.ID(by), at(s), fresh)
		if vs = next; first != want {
			t.Errorf("vote of %s at %d s is another one: %v, want %v", by, s, first, want)
		}
	}
	add("b", 0, true, true)
	add("b", 9, true, false) // the same one, told again
	add("c", 5, true, true)
	add("b", 10, false, true)
	if got := vs.By(); len(got) != 2 {
		t.Errorf("votes of %v, want two witnesses", got)
	}
	kept, by := vs.Refuted(at(39), revive)
	if len(by) != 1 || by[0] != peer.ID("b") {
		t.Errorf("refuted at 39 s: %v, want b: it told of its first vote at 0 s", by)
	}
	if _, by = kept.Refuted(at(39), revive); len(by) != 0 {
		t.Errorf("refuted again: %v", by)
	}
	if left := vs.Since(at(5)); len(left) != 1 || left[0].By != peer.ID("b") {
		t.Errorf("votes after 5 s: %v, want that of b", left)
	}
	if !vs[0].First.Equal(at(0)) {
		t.Error("a method changed the votes that it was given")
	}
}
