package peers

import (
	"testing"
	"time"

	"golang.org/x/time/rate"
)

// busy is a Worker with a wait.
type busy struct{ wait time.Duration }

func (b *busy) Load() (time.Duration, float64) { return b.wait, 1 }

// In a large network, a change is announced, and a suspicion refuted, as soon as another early
// beacon may be made, and once.
func TestEarlyBeaconsAreMadeUp(t *testing.T) {
	for name, happen := range map[string]func(*Service, *busy){
		"suspected": func(s *Service, _ *busy) { s.self.suspected.Store(true) },
		"load":      func(_ *Service, b *busy) { b.wait = time.Minute },
		"both": func(s *Service, b *busy) {
			s.self.suspected.Store(true)
			b.wait = time.Minute
		},
	} {
		s, _ := newService(t)
		b := &busy{}
		s.cfg.Spacing, s.cfg.Worker = time.Minute, b
		p, now := s.publisher, time.Unix(1_800_000_000, 0)
		p.announce(t.Context(), now)
		p.nextBeacon = now.Add(time.Hour)
		p.early = rate.NewLimiter(rate.Every(2*p.beaconInterval()), earlyBurst)
		p.early.AllowN(now, earlyBurst)
		happen(s, b)
		var made []time.Duration
		last := s.Self().Seq
		for after := range 15 * 60 {
			d := time.Duration(after) * time.Second
			p.announce(t.Context(), now.Add(d))
			if seq := s.Self().Seq; seq != last {
				made, last, p.nextBeacon = append(made, d), seq, now.Add(time.Hour)
			}
		}
		if want := 2 * p.beaconInterval(); len(made) != 1 || made[0].Round(time.Minute) != want {
			t.Errorf("%s: beacons after %v, want one after %v", name, made, want)
		}
	}
}
