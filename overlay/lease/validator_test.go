package lease

import (
	"errors"
	"testing"
	"time"

	"peerd/overlay/record"
)

func TestKey(t *testing.T) {
	t.Parallel()
	if got := Key(subnet4); got != "/peerd-lease/203.0.113.0/24" {
		t.Error(got)
	}
	if got := Key(subnet6); got != "/peerd-lease/2001:db8:7::/48" {
		t.Error(got)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	l := first(alice)
	sealed := seal(t, l, alice)
	key := Key(subnet4)
	for name, c := range map[string]struct {
		key  string
		now  time.Time
		want error
	}{
		"now":                {key, noon, nil},
		"clock behind":       {key, noon.Add(-Skew), nil},
		"clock far behind":   {key, noon.Add(-Skew - time.Millisecond), ErrFuture},
		"expired":            {key, l.Expires.Add(time.Second), nil},
		"end of grace":       {key, l.Expires.Add(Grace), nil},
		"past grace":         {key, l.Expires.Add(Grace + time.Millisecond), ErrStale},
		"another subnet":     {Key(subnet6), noon, record.ErrKey},
		"another namespace":  {"/peerd-home/203.0.113.0/24", noon, record.ErrKey},
		"uncanonical prefix": {"/peerd-lease/203.0.113.1/24", noon, record.ErrKey},
		"no key":             {"", noon, record.ErrKey},
	} {
		t.Run(name, func(t *testing.T) {
			err := (Validator{Clock: at(c.now)}).Validate(c.key, sealed)
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	if err := (Validator{}).Validate(key, []byte("x")); err == nil {
		t.Error("noise is valid")
	}
}

func TestExpired(t *testing.T) {
	t.Parallel()
	l := first(alice)
	if l.Expired(l.Expires) || !l.Expired(l.Expires.Add(time.Millisecond)) {
		t.Error("a lease expires just after Expires")
	}
}

func TestSelect(t *testing.T) {
	t.Parallel()
	v := Validator{}
	old := seal(t, first(alice), alice)
	renewed := first(alice)
	renewed.Issued = renewed.Issued.Add(time.Second)
	fresh := seal(t, renewed, alice)
	next := seal(t, granted(t, alice, bob, 2), bob)
	noise := []byte("noise")
	for name, c := range map[string]struct {
		values [][]byte
		want   int
	}{
		"one":                     {[][]byte{old}, 0},
		"identical: the first":    {[][]byte{old, old}, 0},
		"new renewal":             {[][]byte{fresh, old}, 0},
		"old renewal":             {[][]byte{old, fresh}, 1},
		"higher epoch":            {[][]byte{fresh, next, old}, 1},
		"noise loses":             {[][]byte{noise, old}, 1},
		"noise loses at the end":  {[][]byte{old, noise}, 0},
		"first of the best twice": {[][]byte{old, next, next}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := v.Select("", c.values); err != nil || got != c.want {
				t.Errorf("got %d, %v, want %d", got, err, c.want)
			}
		})
	}
	for _, values := range [][][]byte{nil, {noise}} {
		if _, err := v.Select("", values); err == nil {
			t.Errorf("selected from %q", values)
		}
	}
}
