package peers

import (
	"errors"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// A peer that was out of reach is suspect until it is heard, and only what it
// said since counts.
func TestSuspicionAndRefutation(t *testing.T) {
	key, id := identity(t, 1)
	d := newDirectory("", 10)
	put := func(seq uint64, age time.Duration) {
		t.Helper()
		if _, err := d.PutAged(mustSeal(t, key, testBeacon(id, seq, d.now)), age); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, suspect bool) {
		t.Helper()
		_, known := d.Get(id)
		_, passed := d.Passed(id)
		told := len(d.tell(wish{Most: maxOthers}, testBeacon(id, 1, d.now).At))
		if d.Suspected(id) != suspect || d.Alive(id) == suspect || (len(d.All()) == 0) != suspect || (d.Len() == 0) != suspect ||
			passed == suspect || (told == 0) != suspect || (len(d.doubts()) > 0) != suspect {
			t.Errorf("%s: suspected %v, alive %v, %d listed, Len %d, passed %v, %d told, %d doubts", what,
				d.Suspected(id), d.Alive(id), len(d.All()), d.Len(), passed, told, len(d.doubts()))
		}
		if !known || len(d.known()) != 1 {
			t.Errorf("%s: known %v", what, known)
		}
	}
	if d.Suspect(id, d.now) {
		t.Error("a stranger is suspect")
	}
	put(1, 0)
	check("first", false)
	d.now = d.now.Add(10 * time.Second)
	if !d.Suspect(id, d.now) || d.Suspect(id, d.now) {
		t.Error("Suspect does not say what is new")
	}
	check("out of reach", true)
	d.now = d.now.Add(5 * time.Second)
	put(2, 7*time.Second)
	check("a beacon from before", true)
	put(3, time.Second)
	check("a beacon from after", false)
	d.now = d.now.Add(10 * time.Second)
	if d.Suspect(id, d.now.Add(-15*time.Second)) {
		t.Error("suspect although it was heard since the check began")
	}
	check("heard while it was checked", false)
	d.Suspect(id, d.now)
	d.now = d.now.Add(time.Second)
	d.Touch(id)
	check("in contact", false)
	d.Suspect(id, d.now)
	d.now = d.now.Add(85 * time.Second)
	check("silent for 85 s", true)
	d.now = d.now.Add(6 * time.Second)
	if _, ok := d.Get(id); ok || d.Suspected(id) {
		t.Error("suspicion lets it live longer")
	}
}

// What others doubt is looked into once, and only if there is no better news.
func TestDoubtsOfOthers(t *testing.T) {
	key, id := identity(t, 1)
	d := newDirectory("", 10)
	if _, err := d.Put(mustSeal(t, key, testBeacon(id, 1, d.now))); err != nil {
		t.Fatal(err)
	}
	d.now = d.now.Add(10 * time.Second)
	for _, c := range []struct {
		what string
		d    doubt
		want bool
	}{
		{"later than it was heard", doubt{id, 5000}, true},
		{"earlier", doubt{id, 11000}, false},
		{"of a stranger", doubt{"stranger", 5000}, false},
		{"from the future", doubt{id, -1}, false},
		{"from long ago", doubt{id, doubtFor.Milliseconds() + 1}, false},
	} {
		if got := d.news(c.d); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
	d.Suspect(id, d.now)
	if d.news(doubt{id, 0}) {
		t.Error("what is known is news")
	}
}

func TestDoubtsAreFew(t *testing.T) {
	d := newDirectory("", 64)
	for i := range int64(3 * maxDoubts) {
		key, id := identity(t, i+1)
		if _, err := d.Put(mustSeal(t, key, testBeacon(id, 1, d.now))); err != nil {
			t.Fatal(err)
		}
		d.now = d.now.Add(time.Second)
		d.Suspect(id, d.now)
	}
	all := d.doubts()
	if len(all) != maxDoubts || all[0].Age != 0 || all[maxDoubts-1].Age != (maxDoubts-1)*1000 {
		t.Errorf("%v", all)
	}
	s := &Service{dims: testDims}
	if err := s.conclude(peer.ID("x"), testBeacon("", 1, d.now).At, time.Second, nil, told{doubts: make([]doubt, maxDoubts+1)}); !errors.Is(err, ErrBeacon) {
		t.Errorf("more than allowed: %v", err)
	}
}
