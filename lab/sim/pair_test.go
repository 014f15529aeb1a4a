package sim_test

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"peerd/lab/sim"
)

// playPair plays a network of two with one fault of its second peer.
func playPair(t *testing.T, f sim.Fault) sim.Result {
	o := sim.DefaultOptions(7)
	o.Peers, o.Sites, o.Pages, o.Dir = 2, 6, 60, t.TempDir()
	if *simLoud {
		o.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	f.Peers = []int{1}
	r, err := sim.Play(o, sim.Schedule{
		Faults: []sim.Fault{f}, Skews: make([]time.Duration, o.Peers),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range r.Violations {
		t.Errorf("%v: %s", f, v)
	}
	if *simHistory || t.Failed() {
		for _, e := range r.History {
			t.Log(e)
		}
	}
	return r
}

// checkTaken checks that the first peer took over within two minutes of the loss of the other. A
// subnet that it was handing over to the other just then takes up to four: it has granted the
// lease, and does not know whether the other has used it.
func checkTaken(t *testing.T, r sim.Result) {
	t.Helper()
	var lost time.Duration
	taken, leaving := 0, map[string]bool{}
	for _, e := range r.History {
		subnet, state, _ := strings.Cut(strings.TrimPrefix(e.Text, "owns "), ": ")
		switch {
		case e.Peer < 0 && strings.Contains(e.Text, sim.Loss.String()):
			lost = e.At
		case e.Peer == 0 && strings.HasPrefix(state, "leaving"):
			leaving[subnet] = true
		case e.Peer == 0 && state == "owned, epoch 3":
			most := 2 * time.Minute
			if leaving[subnet] {
				most = 4 * time.Minute
			}
			if taken++; e.At > lost+most {
				t.Errorf("took over at %v, want at most %v after %v: %s", e.At, most, lost, e.Text)
			}
		}
	}
	if taken == 0 {
		t.Error("nothing was taken over")
	}
	if t.Failed() {
		for _, e := range r.History {
			t.Log(e)
		}
	}
}

// When one of two peers is lost, the other takes over within two minutes. A cut between them
// makes both act; one owner of each subnet is left when it has healed. Both are in one test,
// because a process has one bubble: an encoder that all share belongs to it.
func TestPair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const at = 30 * time.Second
		for _, f := range []sim.Fault{
			{Kind: sim.Loss, At: at},
			// The former owner's copy has not been opened yet.
			{Kind: sim.Loss, At: 10 * time.Minute, Received: true},
		} {
			r := playPair(t, f)
			t.Logf("after a loss the crawl took %v more", r.Healed)
			checkTaken(t, r)
		}
		r := playPair(t, sim.Fault{Kind: sim.Split, At: at, For: 4 * time.Minute})
		t.Logf("with a cut the crawl took %v, and %d of %d pages were fetched twice", r.Took,
			len(r.Repeated), r.Audit.PagesExpected)
		r = playPair(t, sim.Fault{Kind: sim.Split, At: at, For: 45 * time.Second})
		if len(r.Repeated) > 1 { // one may be in flight
			t.Errorf("%d pages were fetched twice after a short cut, want none", len(r.Repeated))
		}
	})
}
