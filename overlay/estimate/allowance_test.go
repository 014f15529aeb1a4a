package estimate

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"peerd/overlay/wire"
	"peerd/store"
)

// TestAllowance verifies how many requests are accepted of those that come within a second, and
// how many more in the hour that follows.
func TestAllowance(t *testing.T) {
	one := func(int) netip.Prefix { return subnet }
	many := func(i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)
	}
	for _, test := range []struct {
		name        string
		old         bool
		subnet      func(i int) netip.Prefix
		peers       int
		want, later int // later: of one subnet
	}{
		{"one subnet, small network", true, one, 3, 2, 96},
		{"one subnet, large network", true, one, 320, 2, 15},
		{"one subnet, huge network", true, one, 1 << 20, 2, 9},
		{"many subnets", true, many, 3, 3000, 97},
		{"a new peer, many subnets", false, many, 3, newcomerRate.Burst, 97},
	} {
		var a allowance
		now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
		got := 0
		for i := range 3000 {
			if _, err := a.take(test.old, test.subnet(i), test.peers, now); err == nil {
				got++
			}
		}
		if got != test.want {
			t.Errorf("%s: %d requests accepted, want %d", test.name, got, test.want)
		}
		if _, err := a.take(true, subnet, test.peers, now); !test.old && err != nil {
			t.Errorf("%s: an old peer was refused: %v", test.name, err)
		}
		later := 0
		for range 3600 {
			now = now.Add(time.Second)
			if _, err := a.take(true, test.subnet(0), test.peers, now); err == nil {
				later++
			}
		}
		if later != test.later {
			t.Errorf("%s: %d more requests accepted in an hour, want %d", test.name, later,
				test.later)
		}
	}
}

// TestAllowanceOfAllPeers verifies that all peers of a network together send a subnet less than one
// request a second, after those that each of them accepts at once.
func TestAllowanceOfAllPeers(t *testing.T) {
	for _, peers := range []int{2, 10, 32, 33, 100, 900} {
		var a allowance
		now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
		n, d := 0, 3*time.Hour
		for end := now.Add(d); now.Before(end); now = now.Add(time.Second) {
			if _, err := a.take(true, subnet, peers, now); err == nil {
				n++
			}
		}
		if rate := float64(peers*(n-atOnce)) / d.Seconds(); rate > 1 {
			t.Errorf("%d peers: %.2f requests a second, want at most 1", peers, rate)
		}
	}
}

// TestRequestsAreApart verifies that the requests of many peers for one subnet are carried out at
// least 4 s apart, and that one that is as late as an owner's next scout does not wait.
func TestRequestsAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var at []time.Duration
		begin := time.Now()
		s := &Service{Leases: &leases{}, Timeout: time.Minute, Peers: peers(2),
			Fetcher: fetcher(func(context.Context, store.FetchRequest) (store.FetchReport, error) {
				mu.Lock()
				defer mu.Unlock()
				at = append(at, time.Since(begin))
				return store.FetchReport{Outcome: store.OutcomeOK}, nil
			})}
		ask := func(page int) (refused bool) {
			r := good
			r.URL += store.URL(fmt.Sprint(page))
			a, err := s.answer(t.Context(), "me", true,
				request{Lease: []byte("me"), Request: r}, func() bool { return true })
			if err != nil {
				t.Error(err)
			}
			return a.Refused != ""
		}
		var refusals atomic.Int64
		var g sync.WaitGroup
		for page := range 5 {
			g.Go(func() {
				if ask(page) {
					refusals.Add(1)
				}
			})
		}
		g.Wait()
		time.Sleep(apart)
		if ask(5) {
			t.Error("the request of the next scout was refused")
		}
		want := []time.Duration{0, apart, 2 * apart}
		if !slices.Equal(at, want) || refusals.Load() != 3 {
			t.Errorf("requests after %v, %d refusals, want %v, 3", at, refusals.Load(), want)
		}
	})
}

// TestRepeatedRequestIsNotRefused verifies that an owner that asks again, because it was restarted,
// gets the answer to its request while that waits and while it is carried out, and is never told
// that none is sent.
func TestRepeatedRequestIsNotRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		s := &Service{Leases: &leases{}, Timeout: time.Minute, Peers: peers(2),
			Fetcher: fetcher(func(context.Context, store.FetchRequest) (store.FetchReport, error) {
				time.Sleep(5 * time.Second)
				sent.Add(1)
				return store.FetchReport{Outcome: store.OutcomeOK}, nil
			})}
		other := good
		other.URL += "-other"
		var g sync.WaitGroup
		ask := func(r store.FetchRequest) {
			g.Go(func() {
				a, err := s.answer(t.Context(), "me", true,
					request{Lease: []byte("me"), Request: r}, func() bool { return true })
				if err != nil || a.Refused != "" || a.Report.Outcome != store.OutcomeOK {
					t.Errorf("answer() = %+v, %v, want a report", a, err)
				}
			})
		}
		ask(other)
		for range 5 { // waits for 4 s and takes 5 s
			time.Sleep(time.Second)
			ask(good)
		}
		g.Wait()
		if n := sent.Load(); n != 2 {
			t.Errorf("%d requests were sent, want 2", n)
		}
	})
}

// TestRequestOfLostOwner verifies that nothing is sent, and no connection made, for an owner that
// does not wait any more.
func TestRequestOfLostOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		s := &Service{Leases: &leases{}, Timeout: time.Minute, Peers: peers(2),
			Fetcher: fetcher(func(context.Context, store.FetchRequest) (store.FetchReport, error) {
				sent.Add(1)
				return store.FetchReport{Outcome: store.OutcomeOK}, nil
			})}
		for i, want := range []error{nil, errLost, errLost} {
			_, err := s.answer(t.Context(), "me", true,
				request{Lease: []byte("me"), Request: good, Connect: i == 2},
				func() bool { return i == 0 })
			if !errors.Is(err, want) {
				t.Errorf("answer() of request %d = %v, want %v", i, err, want)
			}
		}
		if n := sent.Load(); n != 1 {
			t.Errorf("%d requests were sent, want 1", n)
		}
	})
}

// TestTurn verifies that an owner is asked whether it still waits when the turn of a request that
// waited has come, and that nothing is sent if it does not answer.
func TestTurn(t *testing.T) {
	var sent atomic.Int64
	owner, est := two(t, func(context.Context, store.FetchRequest) (store.FetchReport, error) {
		sent.Add(1)
		return store.FetchReport{Outcome: store.OutcomeOK}, nil
	})
	before := func(p netip.Prefix) { // another request, so that the next one waits for a moment
		_, err := est.allowance.take(true, p, 2, time.Now().Add(50*time.Millisecond-apart))
		if err != nil {
			t.Fatal(err)
		}
	}
	before(subnet)
	if _, err := owner.Fetch(t.Context(), est.Host.ID(), sealedBy(owner), good); err != nil {
		t.Errorf("Fetch() = %v", err)
	}
	before(another(1))
	q := request{Lease: append(sealedBy(owner), " of \x01"...), Request: good}
	q.Request.Addr = another(1).Addr().Next()
	c, err := wire.Dial(t.Context(), owner.Host, est.Host.ID(), owner.limits(maxResponse), proto)
	if err != nil {
		t.Fatal(err)
	}
	var a response
	if err := errors.Join(c.Send(q), c.RecvZ(&a)); err != nil || !a.Turn {
		t.Fatalf("got %+v, %v, want to be asked", a, err)
	}
	if err := c.Close(); err != nil { // it waits no longer
		t.Fatal(err)
	}
	before(another(2))
	if _, err := fetchOf(t, owner, est, 2, good); err != nil {
		t.Errorf("Fetch() after an owner that was lost = %v", err)
	}
	owner.MayFetch = func(p netip.Prefix) bool { return p != another(3) }
	before(another(3)) // it has yielded the subnet meanwhile
	if _, err := fetchOf(t, owner, est, 3, good); !errors.Is(err, ErrNotSent) {
		t.Errorf("Fetch() for a subnet that has another owner = %v, want ErrNotSent", err)
	}
	before(another(4))
	if _, err := fetchOf(t, owner, est, 4, good); err != nil {
		t.Errorf("Fetch() for another subnet = %v", err)
	}
	if n := sent.Load(); n != 3 {
		t.Errorf("%d requests were sent, want 3", n)
	}
}

// TestAllowanceIsBounded verifies that subnets that are no longer requested take no memory.
func TestAllowanceIsBounded(t *testing.T) {
	var a allowance
	now := time.Now()
	for i := range 2 * subnetsCounted {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(i >> 16), byte(i >> 8), byte(i), 0}), 24)
		if _, err := a.take(true, p, 3, now); err != nil {
			t.Fatal(err)
		}
	}
	if n := a.subnets.Len(); n != subnetsCounted {
		t.Errorf("%d subnets are counted, want %d", n, subnetsCounted)
	}
}

// TestNewcomersAreRefused verifies that the service applies the allowance, and that a peer that
// was met long ago is none of the newcomers.
func TestNewcomersAreRefused(t *testing.T) {
	owner, est := two(t, func(context.Context, store.FetchRequest) (store.FetchReport, error) {
		return store.FetchReport{Outcome: store.OutcomeOK}, nil
	})
	now := time.Now().Add(time.Hour) // so that nothing becomes free meanwhile
	for est.allowance.newcomers.Allow(newcomerRate, "", now) {
	}
	_, err := owner.Fetch(t.Context(), est.Host.ID(), sealedBy(owner), good)
	if !errors.Is(err, ErrNotSent) || !strings.Contains(err.Error(), "new peers") {
		t.Errorf("Fetch of a new peer: %v, want ErrNotSent with \"new peers\"", err)
	}
	long := time.Now().Add(-time.Hour) // as wire.Meet an hour ago
	if err := est.Host.Peerstore().Put(owner.Host.ID(), "peerd/met", long); err != nil {
		t.Fatal(err)
	}
	_, err = owner.Fetch(t.Context(), est.Host.ID(), sealedBy(owner), good)
	if err != nil {
		t.Errorf("Fetch of an old peer: %v", err)
	}
}
