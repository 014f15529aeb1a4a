package strategy

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"peerd/node/config"
)

// Every strategy that the settings take is known here under its own name, and
// no other.
func TestNames(t *testing.T) {
	m := Material{Self: "somebody", Locate: func(netip.Addr) (lat, lon float64, ok bool) { return 0, 0, false }}
	for _, name := range Names() {
		s, err := New(name, m)
		if err != nil {
			t.Error(err)
		} else if s.Name() != name {
			t.Errorf("strategy %q calls itself %q", name, s.Name())
		}
	}
	a, b := slices.Sorted(slices.Values(Names())), slices.Sorted(slices.Values(config.Strategies))
	if !slices.Equal(a, b) {
		t.Errorf("strategies %v, the settings take %v", a, b)
	}
	if _, err := New("best", m); !errors.Is(err, ErrUnknown) {
		t.Errorf("got %v", err)
	}
}
