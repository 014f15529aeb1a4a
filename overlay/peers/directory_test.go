package peers

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"pgregory.net/rapid"
)

// clockedDirectory has a clock that the test moves.
type clockedDirectory struct {
	*Directory
	now time.Time
}

func newDirectory(self peer.ID, max int) *clockedDirectory {
	c := &clockedDirectory{now: time.Unix(1_800_000_000, 0)}
	c.Directory = NewDirectory(DirectoryConfig{
		Self: self, Topic: testTopic, Dimensions: testDims,
		TTL: 90 * time.Second, Skew: 5 * time.Minute, Max: max,
		Now: func() time.Time { return c.now },
	})
	return c
}

func TestDirectoryPut(t *testing.T) {
	key, id := identity(t, 1)
	selfKey, self := identity(t, 2)
	d := newDirectory(self, 10)
	put := func(what string, seq uint64, made, age time.Duration, want error) {
		t.Helper()
		_, err := d.PutAged(mustSeal(t, key, testBeacon(id, seq, d.now.Add(made))), age)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	put("first", 5, 0, 0, nil)
	put("the same again", 5, 0, 0, ErrKnown)
	put("an earlier one", 4, 0, 0, ErrKnown)
	put("a later one", 6, 0, 0, nil)
	put("of a clock minutes ahead", 7, 4*time.Minute, 0, nil)
	put("of a clock minutes behind", 8, -4*time.Minute, 0, nil)
	put("from the future", 9, 6*time.Minute, 0, ErrTime)
	put("from the past", 9, -7*time.Minute, 0, ErrTime)
	put("long under way", 9, 0, 2*time.Minute, ErrTime)
	put("of a negative age", 9, 0, -1, ErrTime)
	if _, err := d.Put(mustSeal(t, selfKey, testBeacon(self, 1, d.now))); !errors.Is(err, ErrKnown) {
		t.Errorf("its own: %v, want ErrKnown", err)
	}
	if _, err := d.Put([]byte("no beacon")); !errors.Is(err, ErrBeacon) {
		t.Errorf("no beacon: %v, want ErrBeacon", err)
	}
	if b, ok := d.Get(id); !ok || b.Seq != 8 || d.Len() != 1 || !d.Alive(id) {
		t.Errorf("Get = %+v, %v, Len %d", b, ok, d.Len())
	}
}

func TestDirectoryExpires(t *testing.T) {
	key, id := identity(t, 1)
	d := newDirectory("", 10)
	raw := mustSeal(t, key, testBeacon(id, 1, d.now))
	if _, err := d.Put(raw); err != nil {
		t.Fatal(err)
	}
	heard := d.now
	d.now = d.now.Add(80 * time.Second)
	d.Touch(id)
	d.now = d.now.Add(80 * time.Second)
	if !d.Alive(id) || len(d.All()) != 1 {
		t.Error("gone although it was heard 80 s ago")
	}
	d.now = d.now.Add(11 * time.Second)
	if d.Alive(id) || len(d.All()) != 0 || d.Len() != 0 {
		t.Error("present although it was silent for 91 s")
	}
	if at, ok := d.Heard(id); !ok || !at.Equal(heard.Add(80*time.Second)) {
		t.Errorf("Heard = %v, %v", at, ok)
	}
	// Nobody brings it back with what it said before.
	d.Expire()
	if _, err := d.Put(raw); !errors.Is(err, ErrKnown) {
		t.Errorf("again: %v, want ErrKnown", err)
	}
	d.now = d.now.Add(10 * time.Minute)
	d.Expire()
	if _, ok := d.Heard(id); ok {
		t.Error("remembered for ever")
	}
	if _, err := d.Put(raw); !errors.Is(err, ErrTime) {
		t.Errorf("much later: %v, want ErrTime", err)
	}
	if _, err := d.Put(mustSeal(t, key, testBeacon(id, 2, d.now))); err != nil {
		t.Errorf("when it came back itself: %v", err)
	}
}

func TestDirectoryIsBounded(t *testing.T) {
	d := newDirectory("", 3)
	var ids []peer.ID
	for i := range 5 {
		key, id := identity(t, int64(i+1))
		ids = append(ids, id)
		d.now = d.now.Add(time.Second)
		if _, err := d.Put(mustSeal(t, key, testBeacon(id, 1, d.now))); err != nil {
			t.Fatal(err)
		}
		if i == 2 {
			d.now = d.now.Add(time.Second)
			d.Touch(ids[0])
		}
	}
	var got []peer.ID
	for _, b := range d.All() {
		got = append(got, b.Peer)
	}
	want := []peer.ID{ids[0], ids[3], ids[4]}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("kept %v, want those heard last, sorted: %v", got, want)
	}
}

// Two directories that tell each other what they have end up equal, however
// they differ at first, and say nothing twice.
func TestDirectorySync(t *testing.T) {
	const peers = 12
	rapid.Check(t, func(rt *rapid.T) {
		a, b := newDirectory("", 100), newDirectory("", 100)
		for i := range peers {
			key, id := identity(t, int64(i+1))
			for _, d := range []*clockedDirectory{a, b} {
				if seq := rapid.Uint64Range(0, 2).Draw(rt, "seq"); seq > 0 {
					if _, err := d.Put(mustSeal(t, key, testBeacon(id, seq, d.now))); err != nil {
						rt.Fatal(err)
					}
				}
			}
		}
		fromA, fromB := a.lacking(b.have()), b.lacking(a.have())
		pass := func(to *clockedDirectory, all []aged) {
			for _, g := range all {
				if _, err := to.PutAged(g.Sealed, g.age()); err != nil && !errors.Is(err, ErrKnown) {
					rt.Fatal(err)
				}
			}
		}
		pass(b, fromA)
		pass(a, fromB)
		if left := len(a.lacking(b.have())) + len(b.lacking(a.have())); left != 0 {
			rt.Fatalf("after the exchange %d differ", left)
		}
	})
}

// What is passed on keeps its age, so a dead peer is not kept alive by talk.
func TestDirectorySyncKeepsAge(t *testing.T) {
	key, id := identity(t, 1)
	a, b := newDirectory("", 10), newDirectory("", 10)
	if _, err := a.Put(mustSeal(t, key, testBeacon(id, 1, a.now))); err != nil {
		t.Fatal(err)
	}
	a.now, b.now = a.now.Add(80*time.Second), b.now.Add(80*time.Second)
	for _, g := range a.lacking(nil) {
		if _, err := b.PutAged(g.Sealed, g.age()); err != nil {
			t.Fatal(err)
		}
	}
	b.now = b.now.Add(9 * time.Second)
	if !b.Alive(id) {
		t.Error("gone after 89 s")
	}
	b.now = b.now.Add(2 * time.Second)
	if b.Alive(id) {
		t.Error("present after 91 s of silence")
	}
}
