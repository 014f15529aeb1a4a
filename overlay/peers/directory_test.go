package peers

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"pgregory.net/rapid"

	"peerd/coords"
	"peerd/coords/zone"
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
		TTL: 90 * time.Second, Skew: 5 * time.Minute, Max: max, Zones: zone.DefaultConfig(),
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

// Beacons are dated by a clock that may be wrong; who was heard when is told by the own
// one, also to those who ask for how long somebody is silent.
func TestDirectoryOfWrongDates(t *testing.T) {
	key, id := identity(t, 1)
	for _, off := range []time.Duration{-100 * time.Second, 100 * time.Second} {
		now := time.Now()
		d := NewDirectory(DirectoryConfig{
			Topic: testTopic, Dimensions: testDims, TTL: 90 * time.Second, Skew: 2 * time.Minute, Max: 10, Zones: zone.DefaultConfig(),
			Now: func() time.Time { return now }, Dates: func() time.Time { return now.Add(off) },
		})
		if _, err := d.Put(mustSeal(t, key, testBeacon(id, 1, now))); err != nil {
			t.Fatalf("off by %v: %v", off, err)
		}
		if at, _ := d.Heard(id); !at.Equal(now) {
			t.Errorf("off by %v: heard %v ago", off, now.Sub(at))
		}
		now = now.Add(time.Second)
		if !d.Suspect(id, now) || d.Alive(id) {
			t.Errorf("off by %v: out of reach, and not suspect", off)
		}
		now = now.Add(time.Second)
		if d.Touch(id); !d.Alive(id) {
			t.Errorf("off by %v: heard, and still suspect", off)
		}
		if _, err := d.Put(mustSeal(t, key, testBeacon(id, 2, now.Add(off+121*time.Second)))); !errors.Is(err, ErrTime) {
			t.Errorf("off by %v: a beacon of the day after tomorrow: %v", off, err)
		}
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

// A peer that speaks seldom lives longer.
func TestDirectoryStretches(t *testing.T) {
	key, id := identity(t, 1)
	d := newDirectory("", 10)
	b := testBeacon(id, 1, d.now)
	b.Every = time.Minute
	if _, err := d.PutAged(mustSeal(t, key, b), 5*time.Minute); err != nil {
		t.Fatal(err)
	}
	d.now = d.now.Add(59 * time.Second)
	if !d.Alive(id) {
		t.Error("gone within six intervals")
	}
	d.now = d.now.Add(2 * time.Second)
	if d.Alive(id) {
		t.Error("present after more than six intervals")
	}
	b.Seq++
	if _, err := d.PutAged(mustSeal(t, key, b), 6*time.Minute+time.Second); !errors.Is(err, ErrTime) {
		t.Errorf("silent for more than six intervals: %v", err)
	}
}

// placed is a beacon of a peer x ms from the origin.
func placed(id peer.ID, seq uint64, now time.Time, x float64) Beacon {
	b := testBeacon(id, seq, now)
	b.At, b.Wait = coords.Coordinate{Vec: []float64{x, 0, 0}, Height: 1, Error: 0.1}, 0
	return b
}

func TestDirectoryIsBounded(t *testing.T) {
	const n, size = 64, 16
	d := newDirectory("", size)
	rng := rand.New(rand.NewPCG(1, 2))
	var gone peer.ID
	ids := make([]peer.ID, n)
	for turn, i := range rng.Perm(n) {
		key, id := identity(t, int64(i+1))
		ids[i] = id
		if turn == 0 { // silent from now on
			gone = id
		}
		if _, err := d.Put(mustSeal(t, key, placed(id, 1, d.now, float64(i)))); err != nil {
			t.Fatal(err)
		}
		if turn == 0 {
			d.now = d.now.Add(91 * time.Second)
		}
		if d.Len() > size {
			t.Fatalf("%d of %d", d.Len(), size)
		}
		if turn+1 <= size && d.Partial() {
			t.Fatalf("partial with %d", turn+1)
		}
	}
	if !d.Partial() {
		t.Error("it does not know that it is partial")
	}
	if _, ok := d.Heard(gone); ok {
		t.Error("who is gone was kept")
	}
	for i := range 7 {
		if !d.Alive(ids[i]) && ids[i] != gone {
			t.Errorf("the one %d ms away was dropped", i)
		}
	}
	d.now = d.now.Add(partialFor + time.Second)
	if d.Partial() {
		t.Error("partial for ever")
	}
}

// Who is pinned stays, however far; but pins do not fill the directory.
func TestDirectoryPins(t *testing.T) {
	const size = 16
	d := newDirectory("", size)
	put := func(i int) peer.ID {
		key, id := identity(t, int64(i+1))
		if _, err := d.Put(mustSeal(t, key, placed(id, 1, d.now, float64(i)))); err != nil {
			t.Fatal(err)
		}
		return id
	}
	var pinned []peer.ID
	for i := range 6 {
		pinned = append(pinned, put(1000+i))
		d.Pin(pinned[i])
	}
	for i := range 100 {
		put(i)
	}
	for _, id := range pinned[2:] {
		if !d.Alive(id) {
			t.Error("a pinned peer was dropped")
		}
	}
	if len(d.pins) != size/4 || d.Len() > size {
		t.Errorf("%d pins, %d peers", len(d.pins), d.Len())
	}
}

// passOn has b take in what a would tell it.
func passOn(a, b *clockedDirectory, most int) (told int, err error) {
	at := coords.Coordinate{Vec: make([]float64, testDims)}
	w := b.wish(at, most)
	if err := w.validate(); err != nil {
		return 0, err
	}
	all := a.tell(w, at)
	for _, g := range all {
		if _, err := b.PutAged(g.Sealed, g.age()); err != nil {
			return 0, err
		}
	}
	return len(all), nil
}

// Two directories that tell each other what they have end up equal, however
// they differ at first, and say nothing that is no news.
func TestDirectorySync(t *testing.T) {
	const peers = 12
	rapid.Check(t, func(rt *rapid.T) {
		a, b := newDirectory("", 100), newDirectory("", 100)
		start := uint64(a.now.UnixMilli())
		for i := range peers {
			key, id := identity(t, int64(i+1))
			for _, d := range []*clockedDirectory{a, b} {
				if seq := rapid.Uint64Range(0, 2).Draw(rt, "seq"); seq > 0 {
					if _, err := d.Put(mustSeal(t, key, testBeacon(id, start+seq<<classStep, d.now))); err != nil {
						rt.Fatal(err)
					}
				}
			}
		}
		for _, way := range [][2]*clockedDirectory{{a, b}, {b, a}, {a, b}} {
			if _, err := passOn(way[0], way[1], maxOthers); err != nil {
				rt.Fatal(err)
			}
		}
		for _, way := range [][2]*clockedDirectory{{a, b}, {b, a}} {
			if left, err := passOn(way[0], way[1], maxOthers); err != nil || left != 0 {
				rt.Fatalf("after the exchange %d differ, %v", left, err)
			}
		}
	})
}

// What is told is bounded by the one that listens, and a full directory is told
// little that is far.
func TestDirectoryTellsLess(t *testing.T) {
	a, b := newDirectory("", 100), newDirectory("", 8)
	for i := range 60 {
		key, id := identity(t, int64(i+1))
		raw := mustSeal(t, key, placed(id, 1, a.now, float64(10+i)))
		if _, err := a.Put(raw); err != nil {
			t.Fatal(err)
		}
		if i < 12 {
			if _, err := b.Put(raw); err != nil {
				t.Fatal(err)
			}
		}
	}
	at := coords.Coordinate{Vec: make([]float64, testDims)}
	if w := b.wish(at, 24); w.Reach <= 0 || len(a.tell(w, at)) > 6 {
		t.Errorf("within %v ms %d are told", w.Reach, len(a.tell(w, at)))
	}
	if n := len(a.tell(a.wish(at, 24), at)); n != 0 {
		t.Errorf("itself it tells %d", n)
	}
	if n := len(a.tell(wish{Most: 24}, at)); n != 24 {
		t.Errorf("an empty one is told %d", n)
	}
}

func TestWishValidate(t *testing.T) {
	for _, w := range []wish{
		{Most: -1}, {Most: maxOthers + 1}, {Reach: -1}, {Reach: math.NaN()}, {Reach: math.Inf(1)},
		{Have: make(digest, 3)}, {Have: make(digest, digestSalt+1)}, {Have: make(digest, digestSalt+digestEntry*(maxHave+1))},
	} {
		if err := w.validate(); !errors.Is(err, ErrBeacon) {
			t.Errorf("%d bytes, %v ms, %d: %v", len(w.Have), w.Reach, w.Most, err)
		}
	}
}

// What is passed on keeps its age, so a dead peer is not kept alive by talk.
func TestDirectorySyncKeepsAge(t *testing.T) {
	key, id := identity(t, 1)
	a, b := newDirectory("", 10), newDirectory("", 10)
	if _, err := a.Put(mustSeal(t, key, testBeacon(id, 1, a.now))); err != nil {
		t.Fatal(err)
	}
	a.now, b.now = a.now.Add(80*time.Second), b.now.Add(80*time.Second)
	if n, err := passOn(a, b, 4); n != 1 || err != nil {
		t.Fatalf("told %d, %v", n, err)
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

// A peer is not present for an hour because it says that it seldom speaks: in a
// small network nobody has reason to.
func TestDirectoryBoundsSilence(t *testing.T) {
	_, self := identity(t, 1)
	key, id := identity(t, 2)
	for _, c := range []struct {
		every time.Duration
		alive time.Duration
	}{
		{0, 90 * time.Second},
		{20 * time.Second, 2 * time.Minute},
		{maxEvery, lives * 2 * (1 + unheardOf) * 600 * time.Millisecond},
	} {
		d := newDirectory(self, 100)
		d.cfg.Spacing = 600 * time.Millisecond
		b := testBeacon(id, 1, d.now)
		b.Every = c.every
		if _, err := d.Put(mustSeal(t, key, b)); err != nil {
			t.Fatal(err)
		}
		d.now = d.now.Add(c.alive)
		if !d.Alive(id) {
			t.Errorf("every %v: gone after %v", c.every, c.alive)
		}
		d.now = d.now.Add(time.Second)
		if d.Alive(id) {
			t.Errorf("every %v: present for more than %v", c.every, c.alive)
		}
	}
}
