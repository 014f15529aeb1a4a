package store

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// givenUp returns the URLs of a host, or of all hosts, that were given up, two at a time.
func givenUp(t *testing.T, d *DB, host string) (us []URL) {
	t.Helper()
	var after []byte
	for {
		n := 0
		view(t, d, func(tx *Tx) error {
			return tx.EachGivenUp(host, after, func(g GivenUp) (bool, error) {
				us, after = append(us, g.URL), g.Key
				n++
				return n < 2, nil
			})
		})
		if n < 2 {
			return us
		}
	}
}

func TestGiveUp(t *testing.T) {
	t.Parallel()
	d := memory(t)
	addHost(t, d, host, 3)
	addHost(t, d, "b.example", 0)
	giveUp := func(g GivenUp) {
		t.Helper()
		update(t, d, func(tx *Tx) error { return tx.GiveUp(g) })
	}
	long := strings.Repeat("é", MaxErrorText)
	for i := range 3 {
		giveUp(GivenUp{URL: page("x.example", i), Outcome: OutcomeDNS})
		giveUp(GivenUp{URL: page(host, i), Outcome: OutcomeTimeout, Error: "a\n  b" + long,
			At: when, First: when, Tries: 2, Depth: 1, Hops: 3})
	}
	if n := len(givenUp(t, d, host)); n != 3 {
		t.Errorf("host has %d URLs given up, want 3", n)
	}
	if n := len(givenUp(t, d, "")); n != 6 {
		t.Errorf("there are %d URLs given up, want 6", n)
	}
	view(t, d, func(tx *Tx) error {
		g, err := tx.GivenUp(page(host, 0))
		if g.Outcome != OutcomeTimeout {
			t.Errorf("outcome is %v, want %v", g.Outcome, OutcomeTimeout)
		}
		if len(g.Error) > MaxErrorText || !strings.HasPrefix(g.Error, "a bé") ||
			!utf8.ValidString(g.Error) {
			t.Errorf("error is %q, want at most %d bytes in one line", g.Error, MaxErrorText)
		}
		return err
	})

	// A replica's copy is not listed with the others.
	update(t, d, func(tx *Tx) error {
		h, err := tx.Host(host)
		h.Subnet = netA
		return errors.Join(err, tx.PutSubnet(Subnet{Prefix: netA, Phase: PhaseReplica}))
	})
	if n := len(givenUp(t, d, "")); n != 3 {
		t.Errorf("there are %d URLs given up, want 3: a copy was listed", n)
	}
	if err := d.DropHost(host); err != nil {
		t.Fatal(err)
	}
	if n := len(givenUp(t, d, host)); n != 0 {
		t.Errorf("host has %d URLs given up after DropHost, want 0", n)
	}
}

// A URL that was given up can be queued again; it counts as known once.
func TestPushAgain(t *testing.T) {
	t.Parallel()
	d := memory(t)
	addHost(t, d, host, 1)
	e := queue(t, d, host)[0]
	update(t, d, func(tx *Tx) error {
		return errors.Join(tx.Remove(host, e), tx.GiveUp(GivenUp{URL: e.URL, Tries: 9}))
	})
	update(t, d, func(tx *Tx) error {
		return errors.Join(
			tx.PushAgain(host, Entry{URL: e.URL, Depth: 4, First: when}),
			tx.PushAgain(host, Entry{URL: page(host, 7), Depth: 5, First: when}))
	})
	got := queue(t, d, host)
	if len(got) != 2 || got[0].Depth != 4 || got[0].Tries != 0 ||
		got[0].First.Sub(when).Abs() > time.Millisecond {
		t.Errorf("queue is %+v, want two URLs, the first of depth 4 without tries", got)
	}
	view(t, d, func(tx *Tx) error {
		if _, err := tx.GivenUp(e.URL); !errors.Is(err, ErrNotFound) {
			t.Errorf("GivenUp() = %v, want ErrNotFound", err)
		}
		h, err := tx.Host(host)
		if h.Queued != 2 || h.Known != 2 {
			t.Errorf("host is %+v, want 2 queued, 2 known", h)
		}
		return err
	})
}

// A pending URL that was given up has a record until it is found again.
func TestGiveUpPending(t *testing.T) {
	t.Parallel()
	d := memory(t)
	p := Pending{URL: page("far", 1), Depth: 3, Hops: 1, Found: when}
	giveUp := func() {
		t.Helper()
		update(t, d, func(tx *Tx) error {
			_, err := tx.AddPending(p)
			tx.CountGivenUp(OutcomeDNS, 1)
			return errors.Join(err, tx.GiveUpPending(p, GivenUp{Outcome: OutcomeDNS, At: when}))
		})
	}
	record := func(want bool) {
		t.Helper()
		view(t, d, func(tx *Tx) error {
			g, err := tx.GivenUp(p.URL)
			if (err == nil) != want || want && (g.Depth != 3 || g.Hops != 1) {
				t.Errorf("GivenUp() = %+v, %v, want a record: %v", g, err, want)
			}
			pending, err := tx.HasPending(p.URL)
			if pending && want {
				t.Error("the URL is pending, want only its record")
			}
			if n := d.Counters().Failed; (n == 1) != want || n > 1 {
				t.Errorf("%d URLs count as given up, want a record: %v", n, want)
			}
			return err
		})
	}
	giveUp()
	record(true)
	update(t, d, func(tx *Tx) error { _, err := tx.AddPending(p); return err })
	record(false)
	giveUp()
	addHost(t, d, "far", 2) // queues page 1
	record(false)
}
