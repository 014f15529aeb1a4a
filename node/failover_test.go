package node

import (
	"testing"
	"time"

	"peerd/overlay/peers"
)

func TestWasSilent(t *testing.T) {
	noon := time.Date(2031, 5, 6, 12, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
	away := func(from, to int) peers.Absence { return peers.Absence{From: at(from), To: at(to)} }
	for name, c := range map[string]struct {
		awake, heard time.Time
		away         peers.Absence
		want         bool // from minute 0 to 60
	}{
		"never heard":                 {at(-1), time.Time{}, peers.Absence{}, true},
		"never heard, just started":   {at(1), time.Time{}, peers.Absence{}, false},
		"not heard since":             {at(-99), at(-1), peers.Absence{}, true},
		"heard in it":                 {at(-99), at(30), peers.Absence{}, false},
		"heard all the time":          {at(-99), at(70), away(-50, -40), false},
		"back after it":               {at(-99), at(70), away(-1, 61), true},
		"back in it":                  {at(-99), at(70), away(-1, 59), false},
		"away in it":                  {at(-99), at(70), away(1, 61), false},
		"first heard after it":        {at(-99), at(70), peers.Absence{To: at(65)}, true},
		"first heard in it":           {at(-99), at(70), peers.Absence{To: at(5)}, false},
		"heard again, started in it":  {at(10), at(70), away(11, 61), false},
		"silent, but started in it":   {at(10), at(-1), peers.Absence{}, false},
		"away long ago, heard always": {at(-99), at(61), away(-90, -80), false},
	} {
		if got := wasSilent(c.awake, c.heard, c.away, at(0), at(60)); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestWasApart(t *testing.T) {
	now := time.Date(2031, 5, 6, 12, 0, 0, 0, time.UTC)
	ago := func(minutes float64) time.Time {
		return now.Add(-time.Duration(minutes * float64(time.Minute)))
	}
	away := func(from, to float64) peers.Absence {
		return peers.Absence{From: ago(from), To: ago(to)}
	}
	for name, c := range map[string]struct {
		heard time.Time
		away  peers.Absence
		at    time.Time
		want  bool
	}{
		"a stranger":                  {ago(0), peers.Absence{To: ago(1)}, ago(2), false},
		"never heard":                 {time.Time{}, peers.Absence{}, ago(2), false},
		"always there":                {ago(0), peers.Absence{}, ago(2), false},
		"away then, back now":         {ago(0), away(5, 1), ago(2), true},
		"just before it left":         {ago(0), away(5, 1), ago(5.5), true},
		"long before it left":         {ago(0), away(5, 1), ago(7), false},
		"long after it was back":      {ago(0), away(14, 10), ago(2), false},
		"back for too long":           {ago(0), away(30, 16), ago(20), false},
		"away still":                  {ago(3), peers.Absence{}, ago(2), true},
		"away still, but known to it": {ago(3), peers.Absence{}, ago(5), false},
	} {
		if got := wasApart(c.heard, c.away, c.at, now); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
