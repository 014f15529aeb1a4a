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

	_ "peerd/internal/rapidtest"
	"peerd/store"
)

func encoded(t interface{ Fatal(...any) }, s *State) []byte {
	b, err := cbor.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestStateRoundTrip: a State that was encoded and decoded makes the same decisions as the
// original.
func TestStateRoundTrip(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.MaxSessions, cfg.MaxTokens, cfg.MaxFacets, cfg.Quota = 10, 20, 30, 400
	cfg.MaxYield, cfg.MaxClosed = 20, 30
	g, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	all := traps()
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		kept, moved := new(State), new(State)
		for i := range rapid.IntRange(0, 3000).Draw(t, "URLs") {
			u := store.URL("http://a.example/" + letters(r.IntN(40)) + all[r.IntN(len(all))].url(r,
				i))
			if i%10 == 0 {
				from := fmt.Sprintf("h%d.example", r.IntN(50))
				g.AddLink(kept, "a.example", from)
				g.AddLink(moved, "a.example", from)
			}
			if r.IntN(100) == 0 {
				b := encoded(t, moved)
				moved = new(State)
				if err := cbor.Unmarshal(b, moved); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(b, encoded(t, moved)) || moved.Dirty() {
					t.Fatal("decoded state differs or is dirty")
				}
			}
			if a, b := g.Admit(kept, u), g.Admit(moved, u); a != b {
				t.Fatalf("Admit(%s) = %v by the original, %v by the decoded state", u, a, b)
			}
		}
		if !bytes.Equal(encoded(t, kept), encoded(t, moved)) {
			t.Fatal("final states differ")
		}
	})
}

func TestDirty(t *testing.T) {
	t.Parallel()
	g, s := guard(t, nil), new(State)
	if s.Dirty() {
		t.Error("a new state is dirty")
	}
	for name, touch := range map[string]func(){
		"admitted": func() { g.Admit(s, "http://a.example/") },
		"dropped":  func() { g.Admit(s, "http://a.example/////") },
		"linked":   func() { g.AddLink(s, "a.example", "b.example") },
	} {
		touch()
		if !s.Dirty() {
			t.Errorf("%s: not dirty", name)
		}
		s.MarkSaved()
	}
	g.AddLink(s, "a.example", "b.example")
	if s.Dirty() {
		t.Error("dirty without a change")
	}
}

// TestLargestState fills every slot with as much as it can hold.
func TestLargestState(t *testing.T) {
	t.Parallel()
	var s State
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		at := s.table.use(r.Uint64())
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
		t.Errorf("%d slots and %d sketches, want the maximum", len(s.table.slots), s.table.sketches)
	}
	checkSize(t, &s)
	t.Logf("worst: %d bytes in memory, %d encoded", size(&s), len(encoded(t, &s)))
	var again State
	if err := cbor.Unmarshal(encoded(t, &s), &again); err != nil {
		t.Error(err)
	}
}

func TestSketch(t *testing.T) {
	t.Parallel()
	worst := 0.0
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 0))
		var k sketch
		for n := 1; n <= 50_000; n++ {
			h := r.Uint64()
			k = k.add(h)
			if !k.has(h) {
				t.Fatal("has() = false after add")
			}
			if n <= exactMax && k.count() != float64(n) {
				t.Fatalf("count() of %d values = %v", n, k.count())
			}
			if n == 20 || n == 100 || n == 300 || n == 1000 || n == 20_000 || n == 50_000 {
				worst = max(worst, math.Abs(k.count()/float64(n)-1))
			}
			if !k.valid() {
				t.Fatal("valid() = false")
			}
		}
	}
	t.Logf("worst error of 60 estimates: %.0f %%", 100*worst)
	if worst > 0.4 {
		t.Errorf("an estimate is off by %.0f %%", 100*worst)
	}
}

func TestUnmarshalInvalidState(t *testing.T) {
	t.Parallel()
	slot := append(bytes.Repeat([]byte{1}, 8), 1, 0)
	for name, w := range map[string]wire{
		"version":       {Version: 1},
		"many drops":    {Version: 2, Drops: make([]uint64, 100)},
		"odd domains":   {Version: 2, Linked: make([]byte, 5)},
		"long domains":  {Version: 2, Linked: make([]byte, 129)},
		"high register": {Version: 2, Linked: bytes.Repeat([]byte{59}, registers)},
		"short slot":    {Version: 2, Slots: slot[:9]},
		"no sketch":     {Version: 2, Slots: append(bytes.Clone(slot[:9]), 4)},
		"two of a key":  {Version: 2, Slots: append(bytes.Clone(slot), slot...)},
		"no key":        {Version: 2, Slots: make([]byte, 10)},
		"large":         {Version: 2, Slots: make([]byte, MaxStateBytes)},
		"a count of more": {Version: 2, Slots: append(append(bytes.Repeat([]byte{1}, 8), 0xff, 0xff,
			0xff, 0xff, 0xff, 1), 0)},
	} {
		b, err := cbor.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		s := State{urls: 7}
		if err := s.UnmarshalCBOR(b); !errors.Is(err, ErrState) || s.urls != 7 {
			t.Errorf("%s: UnmarshalCBOR() = %v, want ErrState; URLs %d, want 7", name, err, s.urls)
		}
	}
}

func FuzzState(f *testing.F) {
	g := guard(f, nil)
	for _, trap := range traps() {
		s, r := new(State), rand.New(rand.NewPCG(1, 2))
		for i := range 100 {
			g.Admit(s, store.URL("http://a.example"+trap.url(r, i)))
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
			g.Admit(s, u)
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
	for _, u := range []string{"", "://", "a", "http://", "http://a?", "/;=;", "http://a/(S())",
		"http://a/%", "http://a/2031/m/1?y=2&m=;"} {
		f.Add(u)
	}
	g := guard(f, nil)
	f.Fuzz(func(t *testing.T, u string) {
		s := new(State)
		g.Admit(s, store.URL(u))
		checkSize(t, s)
	})
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		items []string
		want  Set
		ok    bool
	}{
		{nil, All, true},
		{[]string{"-closed"}, All.Without(Closed), true},
		{[]string{"-facets", "-quota", "facets"}, All.Without(Quota), true},
		{[]string{"length", "depth"}, Set(0).With(Length).With(Depth), true},
		{[]string{"none"}, 0, true},
		{[]string{"-all"}, 0, false},
		{[]string{"all", "-facets"}, All.Without(Facets), true},
		{[]string{"facet"}, 0, false},
		{[]string{""}, 0, false},
	} {
		got, err := Parse(c.items)
		if got != c.want || (err == nil) != c.ok {
			t.Errorf("Parse(%q) = %v, %v, want %v", c.items, got.Names(), err, c.want.Names())
		}
		if again, err := Parse(append([]string{"none"}, got.Names()...)); err != nil ||
			again != got {
			t.Errorf("%q: names %v are parsed as %v, %v", c.items, got.Names(), again.Names(), err)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Config){
		"length": func(c *Config) { c.MaxLength = 0 }, "set": func(c *Config) { c.On = 1 },
		"domains": func(c *Config) { c.MaxDomains = -1 },
		"quota":   func(c *Config) { c.Quota = -1 }, "yield": func(c *Config) { c.MaxYield = 0 },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: Validate() = nil, want an error", name)
		}
	}
}
