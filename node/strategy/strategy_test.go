package strategy

import (
	"errors"
	"net/netip"
	"testing"
)

// New must know every strategy under its own name.
func TestNames(t *testing.T) {
	m := Config{Self: "a", Locate: func(netip.Addr) (lat, lon float64, ok bool) {
		return 0, 0, false
	}}
	for _, name := range Names() {
		s, err := New(name, m)
		if err != nil {
			t.Error(err)
		} else if s.Name() != name {
			t.Errorf("New(%q).Name() = %q", name, s.Name())
		}
	}
	if _, err := New("best", m); !errors.Is(err, ErrUnknown) {
		t.Errorf("New() of an unknown name: %v, want ErrUnknown", err)
	}
}
