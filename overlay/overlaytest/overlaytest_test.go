package overlaytest

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
)

func TestIdentitiesAreDeterministic(t *testing.T) {
	ids := func(seed int64) []peer.ID {
		return Identities(seed, 3, func(id peer.ID, key crypto.PrivKey) peer.ID {
			if !id.MatchesPrivateKey(key) {
				t.Errorf("ID %v does not match its key", id)
			}
			return id
		})
	}
	one, again, other := ids(1), ids(1), ids(2)
	if fmt.Sprint(one) != fmt.Sprint(again) || one[0] == one[1] || one[0] == other[0] {
		t.Errorf("IDs = %v, then %v, and %v with another seed", one, again, other)
	}
	if _, id := Identity(1); id != one[0] {
		t.Errorf("Identity(1) = %v, want the first of %v", id, one)
	}
}

func TestIntroduce(t *testing.T) {
	key, id := Identity(1)
	a, b, c := HostOf(t, key), Host(t), Host(t)
	if a.ID() != id {
		t.Errorf("host ID = %v, want %v", a.ID(), id)
	}
	Introduce(a, b, c)
	if err := c.Connect(t.Context(), peer.AddrInfo{ID: a.ID()}); err != nil {
		t.Error(err)
	}
	if err := b.Connect(t.Context(), peer.AddrInfo{ID: c.ID()}); err != nil {
		t.Error(err)
	}
}

// failureRecorder records the failure of a test.
type failureRecorder struct {
	testing.TB
	logged string
}

func (j *failureRecorder) Logf(f string, args ...any)   { j.logged = fmt.Sprintf(f, args...) }
func (j *failureRecorder) Fatalf(f string, args ...any) { j.Logf(f, args...); runtime.Goexit() }

func TestUntilAndWithin(t *testing.T) {
	const half = 30 * time.Minute
	until := func(t testing.TB, cond func() bool) { Until(t, "x", cond) }
	within := func(limit time.Duration) func(testing.TB, func() bool) {
		return func(t testing.TB, cond func() bool) { Within(t, limit, "x", cond) }
	}
	for name, c := range map[string]struct {
		wait   func(t testing.TB, cond func() bool)
		at     time.Duration // when the condition becomes true
		took   time.Duration
		logged string
	}{
		"immediately":       {until, 0, 0, ""},
		"in time":           {until, 50 * time.Second, 50 * time.Second, ""},
		"never":             {until, time.Hour, 5 * time.Minute, "not within 5m0s: x"},
		"within":            {within(time.Second), time.Second, time.Second, "x: after 1s"},
		"not within":        {within(time.Second), time.Hour, time.Second, "not within 1s: x"},
		"longer than Until": {within(time.Hour), half, half, "x: after 30m0s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			j := &failureRecorder{TB: t}
			done := make(chan struct{})
			go func() {
				defer close(done)
				c.wait(j, func() bool { return time.Since(begin) >= c.at })
			}()
			<-done
			if took := time.Since(begin); took < c.took || took > c.took+50*time.Millisecond ||
				j.logged != c.logged {
				t.Errorf("%s: logged %q after %v, want %q after %v",
					name, j.logged, took, c.logged, c.took)
			}
		})
	}
}

func TestLogAfterTestIsDropped(t *testing.T) {
	var b bytes.Buffer
	o := &output{to: &b}
	fmt.Fprint(o, "before")
	o.close()
	if n, err := fmt.Fprint(o, "after"); n != len("after") || err != nil ||
		strings.Contains(b.String(), "after") {
		t.Errorf("Write = %d, %v with output %q, want the bytes dropped", n, err, b.String())
	}
}
