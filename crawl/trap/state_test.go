package trap

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"pgregory.net/rapid"

	"peerd/store"
)

func encoded(t interface{ Fatal(...any) }, s *State) []byte {
	b, err := cbor.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestStateTravels: a State that was written and read decides on as if it had
// not been.
func TestStateTravels(t *testing.T) {
	cfg := DefaultConfig()
	cfg.MaxDates, cfg.MaxFarDates, cfg.MaxSessions, cfg.MaxTokens = 40, 5, 10, 20
	cfg.MaxFacets, cfg.MaxOrders, cfg.MaxNumbers, cfg.Quota = 30, 12, 50, 400
	g, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	all := traps()
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		kept, moved := new(State), new(State)
		for i := range rapid.IntRange(0, 3000).Draw(t, "URLs") {
			u := store.URL("http://a.example/" + letters(r.IntN(40)) + all[r.IntN(len(all))].url(r, i))
			if i%10 == 0 {
				from := fmt.Sprintf("h%d.example", r.IntN(50))
				g.Linked(kept, "a.example", from)
				g.Linked(moved, "a.example", from)
			}
			if r.IntN(100) == 0 {
				b := encoded(t, moved)
				moved = new(State)
				if err := cbor.Unmarshal(b, moved); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(b, encoded(t, moved)) || moved.Dirty() {
					t.Fatal("read and written again it differs, or is dirty")
				}
			}
			if a, b := g.Admit(kept, u, now), g.Admit(moved, u, now); a != b {
				t.Fatalf("%s: %v and %v", u, a, b)
			}
		}
		if !bytes.Equal(encoded(t, kept), encoded(t, moved)) {
			t.Fatal("states differ in the end")
		}
	})
}

func TestDirty(t *testing.T) {
	g, s := guard(t, nil), new(State)
	if s.Dirty() {
		t.Error("a new state is dirty")
	}
	for name, touch := range map[string]func(){
		"admitted": func() { g.Admit(s, "http://a.example/", now) },
		"dropped":  func() { g.Admit(s, "http://a.example/////", now) },
		"linked":   func() { g.Linked(s, "a.example", "b.example") },
	} {
		touch()
		if !s.Dirty() {
			t.Errorf("%s: not dirty", name)
		}
		s.Saved()
	}
	g.Linked(s, "a.example", "b.example")
	if s.Dirty() {
		t.Error("dirty without a change")
	}
}

// TestWorstState fills every place with the most that it can hold.
func TestWorstState(t *testing.T) {
	var s State
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		at := s.table.take(r.Uint64())
		at.n = math.MaxUint32
		for range 8 + r.IntN(2) {
			s.table.count(at, r.Uint64())
		}
	}
	for range 100 {
		s.linked = s.linked.add(r.Uint64())
	}
	for i := range s.drops {
		s.drops[i] = math.MaxUint64
	}
	s.urls = math.MaxUint64
	if len(s.table.slots) != maxShapes || s.table.sketches < maxSketches-1 {
		t.Errorf("%d slots, %d sketches: not the worst", len(s.table.slots), s.table.sketches)
	}
	checkSize(t, &s)
	t.Logf("worst: %d bytes in memory, %d encoded", size(&s), len(encoded(t, &s)))
	var again State
	if err := cbor.Unmarshal(encoded(t, &s), &again); err != nil {
		t.Error(err)
	}
}

func TestSketch(t *testing.T) {
	worst := 0.0
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 0))
		var k sketch
		for n := 1; n <= 50_000; n++ {
			h := r.Uint64()
			k = k.add(h)
			if !k.has(h) {
				t.Fatal("added and not there")
			}
			if n <= exactMax && k.count() != float64(n) {
				t.Fatalf("%d counted as %v", n, k.count())
			}
			if n == 20 || n == 100 || n == 300 || n == 1000 || n == 20_000 || n == 50_000 {
				worst = max(worst, math.Abs(k.count()/float64(n)-1))
			}
			if !k.ok() {
				t.Fatal("not ok")
			}
		}
	}
	t.Logf("worst error of 60 estimates: %.0f %%", 100*worst)
	if worst > 0.4 {
		t.Errorf("an estimate is off by %.0f %%", 100*worst)
	}
}

func TestForeignState(t *testing.T) {
	slot := append(bytes.Repeat([]byte{1}, 8), 1, 0)
	for name, w := range map[string]wire{
		"version":         {Version: 2},
		"many drops":      {Version: 1, Drops: make([]uint64, 100)},
		"odd domains":     {Version: 1, Linked: make([]byte, 5)},
		"long domains":    {Version: 1, Linked: make([]byte, 129)},
		"high register":   {Version: 1, Linked: bytes.Repeat([]byte{59}, registers)},
		"short slot":      {Version: 1, Slots: slot[:9]},
		"no sketch":       {Version: 1, Slots: append(bytes.Clone(slot[:9]), 4)},
		"two of a key":    {Version: 1, Slots: append(bytes.Clone(slot), slot...)},
		"no key":          {Version: 1, Slots: make([]byte, 10)},
		"large":           {Version: 1, Slots: make([]byte, MaxStateBytes)},
		"a count of more": {Version: 1, Slots: append(append(bytes.Repeat([]byte{1}, 8), 0xff, 0xff, 0xff, 0xff, 0xff, 1), 0)},
	} {
		b, err := cbor.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		s := State{urls: 7}
		if err := s.UnmarshalCBOR(b); !errors.Is(err, ErrState) || s.urls != 7 {
			t.Errorf("%s: %v, %d", name, err, s.urls)
		}
	}
}

func FuzzState(f *testing.F) {
	g := guard(f, nil)
	for _, trap := range traps() {
		s, r := new(State), rand.New(rand.NewPCG(1, 2))
		for i := range 100 {
			g.Admit(s, store.URL("http://a.example"+trap.url(r, i)), now)
		}
		f.Add(encoded(f, s))
	}
	urls := ordinary(40)
	f.Fuzz(func(t *testing.T, b []byte) {
		s := new(State)
		if err := s.UnmarshalCBOR(b); err != nil {
			return
		}
		for _, u := range urls {
			g.Admit(s, u, now)
		}
		checkSize(t, s)
		if err := new(State).UnmarshalCBOR(encoded(t, s)); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzAdmit(f *testing.F) {
	for _, trap := range traps() {
		f.Add("http://a.example" + trap.url(rand.New(rand.NewPCG(1, 2)), 7))
	}
	for _, u := range []string{"", "://", "a", "http://", "http://a?", "/;=;", "http://a/(S())", "http://a/%", "http://a/2031/m/1?y=2&m=;"} {
		f.Add(u)
	}
	g := guard(f, nil)
	f.Fuzz(func(t *testing.T, u string) {
		s := new(State)
		if a, b := g.Admit(s, store.URL(u), now), g.Check(store.URL(u)); a != b {
			t.Fatalf("a first URL: %v with state, %v without", a, b)
		}
		checkSize(t, s)
	})
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		items []string
		want  Set
		ok    bool
	}{
		{nil, All, true},
		{[]string{"-calendar"}, All.Without(Calendar), true},
		{[]string{"-calendar", "-quota", "calendar"}, All.Without(Quota), true},
		{[]string{"length", "depth"}, Set(0).With(Length).With(Depth), true},
		{[]string{"none"}, 0, true},
		{[]string{"-all"}, 0, false},
		{[]string{"all", "-facets"}, All.Without(Facets), true},
		{[]string{"calender"}, 0, false},
		{[]string{""}, 0, false},
	} {
		got, err := Parse(c.items)
		if got != c.want || (err == nil) != c.ok {
			t.Errorf("%q: %v, %v, want %v", c.items, got.Names(), err, c.want.Names())
		}
		if again, err := Parse(append([]string{"none"}, got.Names()...)); err != nil || again != got {
			t.Errorf("%q: names %v are read as %v, %v", c.items, got.Names(), again.Names(), err)
		}
	}
}

func TestValidate(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Config){
		"length": func(c *Config) { c.MaxLength = 0 }, "set": func(c *Config) { c.On = 1 }, "domains": func(c *Config) { c.MaxDomains = -1 },
		"quota": func(c *Config) { c.Quota = -1 }, "years": func(c *Config) { c.YearsAhead = -1 },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
