package overlaytest

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
)

func TestFolkAreTheSame(t *testing.T) {
	ids := func(seed int64) []peer.ID {
		return Folk(seed, 3, func(id peer.ID, key crypto.PrivKey) peer.ID {
			if !id.MatchesPrivateKey(key) {
				t.Errorf("%v with another's key", id)
			}
			return id
		})
	}
	one, again, other := ids(1), ids(1), ids(2)
	if fmt.Sprint(one) != fmt.Sprint(again) || one[0] == one[1] || one[0] == other[0] {
		t.Errorf("%v, then %v, and %v of another seed", one, again, other)
	}
	if _, id := Identity(1); id != one[0] {
		t.Errorf("%v is not the first of %v", id, one)
	}
}

func TestHostsKnowEachOther(t *testing.T) {
	key, id := Identity(1)
	a, b, c := Host(t, libp2p.Identity(key)), Host(t), Host(t)
	if a.ID() != id {
		t.Errorf("%v, want %v", a.ID(), id)
	}
	Introduce(a, b, c)
	if err := c.Connect(t.Context(), peer.AddrInfo{ID: a.ID()}); err != nil {
		t.Error(err)
	}
	if err := b.Connect(t.Context(), peer.AddrInfo{ID: c.ID()}); err != nil {
		t.Error(err)
	}
}

// judge is a test that may fail.
type judge struct {
	testing.TB
	said string
}

func (j *judge) Logf(f string, args ...any)   { j.said = fmt.Sprintf(f, args...) }
func (j *judge) Fatalf(f string, args ...any) { j.Logf(f, args...); runtime.Goexit() }

func TestWaiting(t *testing.T) {
	for name, c := range map[string]struct {
		wait func(t testing.TB, cond func() bool)
		at   time.Duration // when the condition comes
		took time.Duration
		said string
	}{
		"at once":           {func(t testing.TB, cond func() bool) { Until(t, "x", cond) }, 0, 0, ""},
		"in time":           {func(t testing.TB, cond func() bool) { Until(t, "x", cond) }, 50 * time.Second, 50 * time.Second, ""},
		"never":             {func(t testing.TB, cond func() bool) { Until(t, "x", cond) }, time.Hour, time.Minute, "not within 1m0s: x"},
		"within":            {func(t testing.TB, cond func() bool) { Within(t, time.Second, "x", cond) }, time.Second, time.Second, "x: after 1s"},
		"not within":        {func(t testing.TB, cond func() bool) { Within(t, time.Second, "x", cond) }, time.Hour, time.Second, "not within 1s: x"},
		"longer than Until": {func(t testing.TB, cond func() bool) { Within(t, time.Hour, "x", cond) }, 30 * time.Minute, 30 * time.Minute, "x: after 30m0s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			j := &judge{TB: t}
			done := make(chan struct{})
			go func() {
				defer close(done)
				c.wait(j, func() bool { return time.Since(begin) >= c.at })
			}()
			<-done
			if took := time.Since(begin); took < c.took || took > c.took+50*time.Millisecond || j.said != c.said {
				t.Errorf("%s: %q after %v, want %q after %v", name, j.said, took, c.said, c.took)
			}
		})
	}
}

func TestLinesAfterTheEndAreDropped(t *testing.T) {
	var b bytes.Buffer
	o := &output{to: &b}
	fmt.Fprint(o, "before")
	o.close()
	if n, err := fmt.Fprint(o, "after"); n != len("after") || err != nil || strings.Contains(b.String(), "after") {
		t.Errorf("%d, %v: %q", n, err, b.String())
	}
}
