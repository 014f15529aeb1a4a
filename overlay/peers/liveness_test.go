package peers

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"pgregory.net/rapid"
)

// Whatever is heard, missed and suspected in whatever order, a state has one meaning.
func TestLivenessStates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const id = peer.ID("p")
		d := testDirectory("", 10)
		var heard, suspected time.Time
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			d.now = d.now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
			before := d.Liveness(id).State
			switch rapid.SampledFrom([]string{"hear", "miss", "suspect"}).Draw(t, "event") {
			case "hear":
				d.Touch(id)
				heard = d.now
			case "miss":
				d.miss(id, d.now)
			case "suspect":
				if d.Suspect(id, d.now) {
					suspected = d.now
				}
			}
			want := Liveness{State: Alive, Heard: heard}
			switch {
			case heard.IsZero():
				want.State = Unknown
			case d.now.Sub(heard) > 90*time.Second:
				want.State, want.Since = Dead, heard.Add(90*time.Second)
			case !suspected.IsZero() && !heard.After(suspected):
				want.State, want.Since = Suspect, suspected
			}
			got := d.Liveness(id)
			if want.State == Alive {
				want.Since = got.Since
			}
			if got != want || got.Since.After(d.now) {
				t.Fatalf("Liveness = %+v after %v, want %+v", got, before, want)
			}
		}
	})
}

// An absence is reported from when it is over, with the times at which the peer was heard.
func TestAbsences(t *testing.T) {
	const id = peer.ID("p")
	d := testDirectory("", 10)
	begin := d.now
	check := func(since time.Time, want ...Absence) {
		t.Helper()
		if got := d.Absences(since); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("Absences = %v, want %v", got, want)
		}
	}
	d.Touch(id)
	check(begin, Absence{Peer: id, To: begin})
	check(begin.Add(1))
	d.now = d.now.Add(awayFor)
	d.Touch(id)
	check(begin.Add(1))
	left := d.now
	d.now = d.now.Add(awayFor + 1)
	check(begin.Add(1))
	came := d.now
	d.Touch(id)
	check(came, Absence{id, left, came})
	d.now = d.now.Add(time.Second)
	d.Touch(id)
	check(came, Absence{id, left, came})
	if l := d.Liveness(id); l != (Liveness{Alive, came, d.now}) {
		t.Errorf("Liveness = %+v, want alive since the absence", l)
	}
}

// A peer that no peer reached was absent, however short its silence was.
func TestAbsenceOfSuspect(t *testing.T) {
	const id = peer.ID("p")
	d := testDirectory("", 10)
	begin := d.now
	d.Touch(id)
	left := d.now
	d.now = d.now.Add(time.Second)
	checked := d.now
	d.now = d.now.Add(time.Second)
	if !d.Suspect(id, checked) {
		t.Fatal("not suspected")
	}
	if got := d.Absences(begin.Add(1)); len(got) > 0 {
		t.Errorf("Absences = %v before it was heard, want none", got)
	}
	d.now = d.now.Add(time.Second)
	came := d.now
	for range 2 {
		d.Touch(id)
		want := []Absence{{id, left, came}}
		if got := d.Absences(begin.Add(1)); !slices.Equal(got, want) {
			t.Errorf("Absences = %v, want %v", got, want)
		}
		d.now = d.now.Add(time.Second)
	}
}

// A member that is away is not forgotten for a day, however many keys are made up.
func TestAbsentMemberIsRemembered(t *testing.T) {
	d := testDirectory("", 10)
	member := func(want State, what string) {
		t.Helper()
		if l := d.Liveness("member"); l.State != want {
			t.Errorf("%s: %v, want state %d", what, l, want)
		}
	}
	d.Touch("member")
	d.now = d.now.Add(time.Minute)
	d.Touch("member")
	member(Alive, "at first")
	d.now = d.now.Add(keptFor)
	for i := range maxLives + 10 {
		d.Touch(peer.ID(fmt.Sprint(i)))
	}
	member(Dead, "after a day")
	d.now = d.now.Add(time.Second)
	d.Touch("one more")
	member(Unknown, "after more than a day")
}

// The lives of peers with beacons are kept, and of the others the latest.
func TestLivesAreBounded(t *testing.T) {
	d := testDirectory("", 10)
	key, id := identity(t, 1)
	if _, err := d.Put(mustSeal(t, key, testBeacon(id, 1, d.now))); err != nil {
		t.Fatal(err)
	}
	for i := range maxLives + 10 {
		d.now = d.now.Add(time.Millisecond)
		d.Touch(peer.ID(fmt.Sprint(i)))
	}
	if len(d.lives) != maxLives || d.Liveness(id).State != Alive ||
		d.Liveness("0").State != Unknown || d.Liveness("11").State != Alive {
		t.Errorf("%d lives, of a peer with a beacon %v, of the first %v, of a later one %v",
			len(d.lives), d.Liveness(id), d.Liveness("0"), d.Liveness("11"))
	}
}
