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
	"peerd/internal/clock"
	_ "peerd/internal/rapidtest"
)

// clockedDirectory is a Directory with a clock that the test sets.
type clockedDirectory struct {
	*Directory
	now time.Time
}

func (c *clockedDirectory) at() time.Time { return c.now }

func testDirectory(self peer.ID, max int) *clockedDirectory {
	c := &clockedDirectory{now: time.Unix(1_800_000_000, 0)}
	c.Directory = newDirectory(directoryConfig{
		Self: self, Topic: testTopic, Dimensions: testDims,
		TTL: 90 * time.Second, Skew: 5 * time.Minute, Max: max, Zones: zone.DefaultConfig(),
		Local: clock.Of(c.at), Dates: clock.Of(c.at),
	})
	return c
}

func TestDirectoryPut(t *testing.T) {
	key, id := identity(t, 1)
	selfKey, self := identity(t, 2)
	d := testDirectory(self, 10)
	put := func(what string, seq uint64, made, age time.Duration, want error) {
		t.Helper()
		_, err := d.put(mustSeal(t, key, testBeacon(id, seq, d.now.Add(made))), age, hearsay{})
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
	_, err := d.Put(mustSeal(t, selfKey, testBeacon(self, 1, d.now)))
	if !errors.Is(err, ErrKnown) {
		t.Errorf("Put of its own beacon: %v, want ErrKnown", err)
	}
	if _, err := d.Put([]byte("no beacon")); !errors.Is(err, ErrBeacon) {
		t.Errorf("Put of malformed bytes: %v, want ErrBeacon", err)
	}
	if b, ok := d.Get(id); !ok || b.Seq != 8 || d.Len() != 1 || !d.Alive(id) {
		t.Errorf("Get = %+v, %v, Len = %d, want Seq 8, true, 1", b, ok, d.Len())
	}
}

// The clock for the dates of beacons may be wrong. When peers were heard is measured by the
// local clock.
func TestDirectoryOfWrongDates(t *testing.T) {
	key, id := identity(t, 1)
	for _, off := range []time.Duration{-100 * time.Second, 100 * time.Second} {
		now := time.Now()
		d := newDirectory(directoryConfig{
			Topic: testTopic, Dimensions: testDims, TTL: 90 * time.Second, Skew: 2 * time.Minute,
			Max: 10, Zones: zone.DefaultConfig(),
			Local: clock.Of(func() time.Time { return now }),
			Dates: clock.Of(func() time.Time { return now.Add(off) }),
		})
		if _, err := d.Put(mustSeal(t, key, testBeacon(id, 1, now))); err != nil {
			t.Fatalf("clock off by %v: Put: %v", off, err)
		}
		if at := d.Liveness(id).Heard; !at.Equal(now) {
			t.Errorf("clock off by %v: last heard %v ago, want 0", off, now.Sub(at))
		}
		now = now.Add(time.Second)
		if !d.Suspect(id, now) || d.Alive(id) {
			t.Errorf("clock off by %v: peer is not suspect after Suspect", off)
		}
		now = now.Add(time.Second)
		if d.Touch(id); !d.Alive(id) {
			t.Errorf("clock off by %v: peer is not alive after Touch", off)
		}
		if _, err := d.Put(mustSeal(t, key,
			testBeacon(id, 2, now.Add(off+121*time.Second)))); !errors.Is(err, ErrTime) {
			t.Errorf("clock off by %v: Put of a beacon from the future: %v, want ErrTime", off, err)
		}
	}
}

func TestDirectoryExpires(t *testing.T) {
	key, id := identity(t, 1)
	d := testDirectory("", 10)
	raw := mustSeal(t, key, testBeacon(id, 1, d.now))
	if _, err := d.Put(raw); err != nil {
		t.Fatal(err)
	}
	heard := d.now
	d.now = d.now.Add(80 * time.Second)
	d.Touch(id)
	d.now = d.now.Add(80 * time.Second)
	if !d.Alive(id) || len(d.All()) != 1 {
		t.Error("peer is not alive 80 s after it was heard")
	}
	d.now = d.now.Add(11 * time.Second)
	if d.Alive(id) || len(d.All()) != 0 || d.Len() != 0 {
		t.Error("peer is alive after 91 s of silence")
	}
	want := Liveness{Dead, heard.Add(170 * time.Second), heard.Add(80 * time.Second)}
	if l := d.Liveness(id); l != want {
		t.Errorf("Liveness = %+v, want %+v", l, want)
	}
	// Its old beacon must not make it present again.
	d.Expire()
	if _, err := d.Put(raw); !errors.Is(err, ErrKnown) {
		t.Errorf("Put of the old beacon: %v, want ErrKnown", err)
	}
	d.now = d.now.Add(10 * time.Minute)
	d.Expire()
	if d.entries[id] != nil || d.Liveness(id) != want {
		t.Errorf("after 10 minutes: beacon kept %v, Liveness = %+v, want %+v", d.entries[id] != nil,
			d.Liveness(id), want)
	}
	if _, err := d.Put(raw); !errors.Is(err, ErrTime) {
		t.Errorf("Put of the old beacon 10 minutes later: %v, want ErrTime", err)
	}
	if _, err := d.Put(mustSeal(t, key, testBeacon(id, 2, d.now))); err != nil {
		t.Errorf("Put of a new beacon: %v", err)
	}
}

// A peer with a longer interval has a longer lifetime.
func TestDirectoryStretches(t *testing.T) {
	key, id := identity(t, 1)
	d := testDirectory("", 10)
	b := testBeacon(id, 1, d.now)
	b.Interval = time.Minute
	if _, err := d.put(mustSeal(t, key, b), 5*time.Minute, hearsay{}); err != nil {
		t.Fatal(err)
	}
	d.now = d.now.Add(59 * time.Second)
	if !d.Alive(id) {
		t.Error("peer is not alive within six intervals")
	}
	d.now = d.now.Add(2 * time.Second)
	if d.Alive(id) {
		t.Error("peer is alive after more than six intervals")
	}
	b.Seq++
	_, err := d.put(mustSeal(t, key, b), 6*time.Minute+time.Second, hearsay{})
	if !errors.Is(err, ErrTime) {
		t.Errorf("put after more than six intervals of silence: %v, want ErrTime", err)
	}
}

// placed returns a beacon of a peer x ms from the origin.
func placed(id peer.ID, seq uint64, now time.Time, x float64) Beacon {
	b := testBeacon(id, seq, now)
	b.At, b.Wait = coords.Coordinate{Vec: []float64{x, 0, 0}, Height: 1, Error: 0.1}, 0
	return b
}

func TestDirectoryIsBounded(t *testing.T) {
	const n, size = 64, 16
	d := testDirectory("", size)
	rng := rand.New(rand.NewPCG(1, 2))
	var expired peer.ID
	ids := make([]peer.ID, n)
	for turn, i := range rng.Perm(n) {
		key, id := identity(t, int64(i+1))
		ids[i] = id
		if turn == 0 { // not heard again
			expired = id
		}
		if _, err := d.Put(mustSeal(t, key, placed(id, 1, d.now, float64(i)))); err != nil {
			t.Fatal(err)
		}
		if turn == 0 {
			d.now = d.now.Add(91 * time.Second)
		}
		if d.Len() > size {
			t.Fatalf("Len() = %d, want at most %d", d.Len(), size)
		}
		if turn+1 <= size && d.Partial() {
			t.Fatalf("Partial() with %d peers = true, want false", turn+1)
		}
	}
	if !d.Partial() {
		t.Error("Partial() after evictions = false, want true")
	}
	if d.entries[expired] != nil {
		t.Error("expired peer was kept")
	}
	for i := range 7 {
		if d.entries[ids[i]] == nil && ids[i] != expired {
			t.Errorf("peer at %d ms was evicted", i)
		}
	}
	d.now = d.now.Add(partialFor + time.Second)
	if d.Partial() {
		t.Error("Partial() long after the last eviction = true, want false")
	}
}

// A pinned peer is kept whatever its distance, but pins do not fill the directory.
func TestDirectoryPins(t *testing.T) {
	const size = 16
	d := testDirectory("", size)
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
			t.Error("pinned peer was evicted")
		}
	}
	if len(d.pins) != size/4 || d.Len() > size {
		t.Errorf("%d pins and %d peers, want a quarter of the size and at most the size",
			len(d.pins), d.Len())
	}
}

// syncOnce relays beacons from a to b.
func syncOnce(a, b *clockedDirectory, most int) (relayed int, err error) {
	at := coords.Coordinate{Vec: make([]float64, testDims)}
	w := b.syncRequest(at, most)
	if err := w.validate(); err != nil {
		return 0, err
	}
	all := a.beaconsFor(w, at)
	for _, g := range all {
		if _, err := b.put(g.Sealed, g.age(), hearsay{}); err != nil {
			return 0, err
		}
	}
	return len(all), nil
}

// Two directories that sync become equal, whatever they contain at first, and then relay
// nothing more.
func TestDirectorySync(t *testing.T) {
	const peers = 12
	rapid.Check(t, func(rt *rapid.T) {
		a, b := testDirectory("", 100), testDirectory("", 100)
		start := uint64(a.now.UnixMilli())
		for i := range peers {
			key, id := identity(t, int64(i+1))
			for _, d := range []*clockedDirectory{a, b} {
				if seq := rapid.Uint64Range(0, 2).Draw(rt, "seq"); seq > 0 {
					if _, err := d.Put(mustSeal(t, key, testBeacon(id, start+seq<<classStep,
						d.now))); err != nil {
						rt.Fatal(err)
					}
				}
			}
		}
		for _, way := range [][2]*clockedDirectory{{a, b}, {b, a}, {a, b}} {
			if _, err := syncOnce(way[0], way[1], maxFirstSync); err != nil {
				rt.Fatal(err)
			}
		}
		for _, way := range [][2]*clockedDirectory{{a, b}, {b, a}} {
			if left, err := syncOnce(way[0], way[1], maxFirstSync); err != nil || left != 0 {
				rt.Fatalf("%d beacons differ after the sync, %v, want 0", left, err)
			}
		}
	})
}

// The requester limits the number of beacons, and a full directory gets few of distant peers.
func TestDirectoryTellsLess(t *testing.T) {
	a, b := testDirectory("", 100), testDirectory("", 8)
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
	if w := b.syncRequest(at, 24); w.Radius <= 0 || len(a.beaconsFor(w, at)) > 6 {
		t.Errorf("request with radius %v ms gets %d beacons, want a positive radius and at most 6",
			w.Radius, len(a.beaconsFor(w, at)))
	}
	if n := len(a.beaconsFor(a.syncRequest(at, 24), at)); n != 0 {
		t.Errorf("a directory has %d beacons for itself, want 0", n)
	}
	if n := len(a.beaconsFor(syncRequest{MaxBeacons: 24}, at)); n != 24 {
		t.Errorf("an empty directory gets %d beacons, want 24", n)
	}
}

func TestSyncRequestValidate(t *testing.T) {
	for _, w := range []syncRequest{
		{MaxBeacons: -1}, {MaxBeacons: maxFirstSync + 1}, {Radius: -1}, {Radius: math.NaN()},
		{Radius: math.Inf(1)},
		{Digest: make(digest, 3)}, {Digest: make(digest, digestSalt+1)},
		{Digest: make(digest, digestSalt+digestEntry*(maxDigest+1))},
	} {
		if err := w.validate(); !errors.Is(err, ErrBeacon) {
			t.Errorf("validate of digest of %d bytes, radius %v ms, %d beacons: %v, want ErrBeacon",
				len(w.Digest), w.Radius, w.MaxBeacons, err)
		}
	}
}

// Relayed beacons keep their age, so peers do not keep a failed peer alive among themselves.
func TestDirectorySyncKeepsAge(t *testing.T) {
	key, id := identity(t, 1)
	a, b := testDirectory("", 10), testDirectory("", 10)
	if _, err := a.Put(mustSeal(t, key, testBeacon(id, 1, a.now))); err != nil {
		t.Fatal(err)
	}
	a.now, b.now = a.now.Add(80*time.Second), b.now.Add(80*time.Second)
	if n, err := syncOnce(a, b, 4); n != 1 || err != nil {
		t.Fatalf("relayed %d beacons, %v, want 1", n, err)
	}
	b.now = b.now.Add(9 * time.Second)
	if !b.Alive(id) {
		t.Error("peer is not alive after 89 s of silence")
	}
	b.now = b.now.Add(2 * time.Second)
	if b.Alive(id) {
		t.Error("peer is alive after 91 s of silence")
	}
}

// The interval that a peer may claim is bounded by the size of the network.
func TestDirectoryBoundsSilence(t *testing.T) {
	_, self := identity(t, 1)
	key, id := identity(t, 2)
	for _, c := range []struct {
		every time.Duration
		alive time.Duration
	}{
		{0, 90 * time.Second},
		{20 * time.Second, 2 * time.Minute},
		{maxInterval, ttlIntervals * 2 * (1 + maxUnknownPeers) * 600 * time.Millisecond},
	} {
		d := testDirectory(self, 100)
		d.cfg.Spacing = 600 * time.Millisecond
		b := testBeacon(id, 1, d.now)
		b.Interval = c.every
		if _, err := d.Put(mustSeal(t, key, b)); err != nil {
			t.Fatal(err)
		}
		d.now = d.now.Add(c.alive)
		if !d.Alive(id) {
			t.Errorf("interval %v: peer is not alive after %v", c.every, c.alive)
		}
		d.now = d.now.Add(time.Second)
		if d.Alive(id) {
			t.Errorf("interval %v: peer is alive after more than %v", c.every, c.alive)
		}
	}
}
