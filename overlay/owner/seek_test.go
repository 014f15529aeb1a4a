package owner

import (
	"testing"

	"peerd/coords"
	"peerd/coords/assign"
)

func TestSeekerAsksRarely(t *testing.T) {
	t.Parallel()
	at, later := &coords.Proxy{Scale: 1, Samples: 3}, &coords.Proxy{Scale: 1, Samples: 6}
	s := &subnet{}
	for i, c := range []struct {
		step assign.Step
		want bool
	}{
		{assign.Step{Probe: "a"}, false}, // no place yet
		{assign.Step{Probe: "b", Proxy: at}, true},
		{assign.Step{Probe: "c", Proxy: at}, false},
		{assign.Step{Probe: "c", Proxy: later}, true},
		{assign.Step{Probe: "c", Proxy: later}, false},
		{assign.Step{Choice: "a", Proxy: at}, false},
		{assign.Step{Probe: "a", Proxy: at}, true}, // decided again
	} {
		if got := s.seeks(c.step); got != c.want {
			t.Errorf("step %d: %v, want %v", i, got, c.want)
		}
	}
}
