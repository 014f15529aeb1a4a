package testnet

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"peerd/lab/emulate"
	"peerd/lab/emulate/wan"
	"peerd/lab/emulate/web"
)

// Peers and sites have places, other addresses have none, and the network knows the same places.
func TestPlacesOfContainers(t *testing.T) {
	d := Distances{Net: netip.MustParsePrefix("10.78.0.0/16"), Seed: 7}
	n, world := d.network(), d.plan().World
	places, cities := map[int]bool{}, map[string]bool{}
	for i := range maxContainers {
		for _, a := range []netip.Addr{hostAddr(d.Net, 0, byte(i+1)), siteAddr(d.Net, i)} {
			place, ok := d.place(a)
			if known, has := n.PlaceOf(a); !ok || !has || known != place || places[place] {
				t.Fatalf("%s is at %d, %v; the network says %d, %v", a, place, ok, known, has)
			}
			places[place] = true
			if a.As4()[2] == 0 && i < 20 {
				cities[world.Name(place)] = true
			}
		}
	}
	if len(cities) < 18 {
		t.Errorf("20 peers are in %d cities", len(cities))
	}
	for _, text := range []string{"10.78.255.53", "10.78.1.11", "10.79.0.1", "127.0.0.1", "::1"} {
		a := netip.MustParseAddr(text)
		_, has := n.PlaceOf(a)
		if place, ok := d.place(a); ok || has {
			t.Errorf("%s has place %d", a, place)
		}
	}
}

func TestSpecsWithoutDistances(t *testing.T) {
	for text, fails := range map[string]bool{"10.78.0.0/16": false, "10.78.0.0/24": true} {
		s := emulate.Spec{Net: netip.MustParsePrefix(text)}
		if c, err := NewContained(s, nil); c != nil || err != nil {
			t.Errorf("seed 0 in %s: %v, %v, want no distances", text, c, err)
		}
		s.Seed = 1
		if _, err := NewContained(s, nil); (err != nil) != fails {
			t.Errorf("in %s: %v", text, err)
		}
	}
}

func TestOrdersAreChecked(t *testing.T) {
	d := Distances{Net: netip.MustParsePrefix("10.78.0.0/16"), Seed: 1}
	peer, site := hostAddr(d.Net, 0, 2), siteAddr(d.Net, 3)
	c := newControl(d)
	for want, o := range map[string]Order{
		"want 1 to":              {Verb: "slow", Places: []netip.Addr{peer}, By: 0.5},
		"want 0 to":              {Verb: "load", Places: []netip.Addr{peer}, Delay: time.Hour},
		"none of":                {Verb: "stop", Places: []netip.Addr{peer}},
		"no container":           {Verb: "cut"},
		"no address of a peer":   {Verb: "cut", Places: []netip.Addr{namesAddr(d.Net)}},
		"only peers can be rest": {Verb: "restart", Places: []netip.Addr{site}},
	} {
		if err := c.apply(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
	if len(c.state.Changes) > 0 {
		t.Fatalf("wrong orders made changes: %v", c.state.Changes)
	}
	for _, o := range []Order{
		{Verb: "cut", Places: []netip.Addr{peer, site}}, {Verb: "restart", Places: []netip.Addr{peer}},
		{Verb: "cut", Places: []netip.Addr{hostAddr(d.Net, 0, 9)}},
	} {
		if err := c.apply(o); err != nil {
			t.Fatal(err)
		}
	}
	world := d.changed(d.plan().World, c.state.Changes)
	link := func(a, b netip.Addr) bool {
		i, _ := d.place(a)
		j, _ := d.place(b)
		return world.Link(i, j).Cut
	}
	if link(peer, site) || !link(peer, siteAddr(d.Net, 4)) || !link(peer, hostAddr(d.Net, 0, 9)) {
		t.Error("wrong containers are cut off from each other")
	}
	err := c.apply(Order{Verb: "heal"})
	if err != nil || c.state.Changes[peer] != (Change{Restarts: 1}) ||
		c.state.Changes[site] != (Change{}) {
		t.Errorf("after heal: %+v, %v; want the number of restarts only", c.state.Changes, err)
	}
}

// The peer of a container dials over the emulated distances, applies their changes, and restarts
// when it is told to. Loopback addresses stand for containers here: 127.0.0.1 for the peer.
func TestContained(t *testing.T) {
	d := Distances{Net: netip.MustParsePrefix("127.0.0.0/16"), Seed: 1}
	site, err := net.Listen("tcp", netip.AddrPortFrom(siteAddr(d.Net, 2), 0).String())
	if err != nil {
		t.Fatal(err)
	}
	defer site.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := ln.Addr().(*net.TCPAddr).AddrPort()
	c, err := NewContained(emulate.Spec{Net: d.Net, Seed: 1}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	restarted := make(chan struct{}, 9)
	c.restart = func() error { restarted <- struct{}{}; return nil }
	ctx, stop := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error { return newControl(d).serve(ctx, ln) })
	g.Go(func() error { c.follow(ctx, at); return nil })
	defer func() {
		stop()
		if err := errors.Join(g.Wait(), c.network.Close()); err != nil {
			t.Error(err)
		}
	}()
	dial := func(limit time.Duration) (time.Duration, error) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		conn, err := c.dial(ctx, "tcp", site.Addr().String())
		if err == nil {
			conn.Close()
		}
		return time.Since(start), err
	}
	order := func(o Order) {
		t.Helper()
		o.Places = []netip.Addr{netip.MustParseAddr("127.0.0.1")}
		before := c.network.World()
		if err := send(ctx, at, o); err != nil {
			t.Fatal(err)
		}
		for c.network.World() == before && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
	}
	i, _ := d.place(netip.MustParseAddr("127.0.0.1"))
	j, _ := d.place(siteAddr(d.Net, 2))
	rtt := d.plan().World.Link(i, j).RTT
	if took, err := dial(time.Minute); err != nil || took < rtt {
		t.Errorf("a dial took %v, %v; want at least %v", took, err, rtt)
	}
	order(Order{Verb: "load", Delay: 300 * time.Millisecond})
	if took, err := dial(time.Minute); err != nil || took < rtt+300*time.Millisecond {
		t.Errorf("a dial took %v, %v; want at least 300ms more than %v", took, err, rtt)
	}
	order(Order{Verb: "cut"})
	if _, err := dial(50 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a dial during a cut: %v", err)
	}
	order(Order{Verb: "heal"})
	if _, err := dial(time.Minute); err != nil {
		t.Errorf("a dial after a cut: %v", err)
	}
	order(Order{Verb: "restart"})
	<-restarted
	if _, err := c.dial(ctx, "tcp", "127.0.255.53:1"); err == nil {
		t.Error("an address without a place was dialed")
	}
	if err := send(ctx, at, Order{Verb: strings.Repeat("x", maxOrder)}); err == nil {
		t.Error("a request without end was read")
	}
}

// The page times of containers are those of the distances and of the site, for the peer that has
// fetched a page and for the others.
func TestTimesOfContainers(t *testing.T) {
	d := Distances{Net: netip.MustParsePrefix("10.78.0.0/16"), Seed: 1}
	near, far, site := hostAddr(d.Net, 0, 2), hostAddr(d.Net, 0, 3), siteAddr(d.Net, 0)
	link := func(a netip.Addr) wan.Link {
		from, _ := d.place(a)
		to, _ := d.place(site)
		return d.plan().World.Link(from, to)
	}
	if link(far).RTT < link(near).RTT {
		near, far = far, near
	}
	start := time.Now()
	hit := web.Hit{Start: start, End: start.Add(30 * time.Millisecond), Host: "a.test", Path: "/",
		Addr: site, Peer: far, Bytes: 1000, Reused: true, Page: true}
	in := emulate.Input{Peers: 2, Subnets: []emulate.Subnet{{Hosts: []string{"a.test"}, Owner: 1}}}
	d.times(&in, []web.Hit{hit, {Host: "a.test", Path: "/robots.txt", Addr: site, Peer: near}},
		map[netip.Addr]int{near: 0, far: 1})
	r := Report{Report: emulate.Evaluate(in)}
	ms := func(a netip.Addr) float64 {
		return float64(web.LinkTime(link(a), 1000, true)+30*time.Millisecond) / 1e6
	}
	if math.Abs(r.Download.P90-ms(far)) > .01 || math.Abs(r.Oracle.P90-ms(near)) > .01 ||
		r.Assigned != r.Download || r.OptimalShare != 0 {
		t.Errorf("%+v; want %v by the peer and %v by the nearer one", r, ms(far), ms(near))
	}
	table := r.Table()
	for text, want := range map[string]bool{"oracle": true, "fastest peer": true, "overhead": false,
		"estimations": false} {
		if strings.Contains(table, text) != want {
			t.Errorf("%q is in the table: %v\n%s", text, !want, table)
		}
	}
	if r.conclude(DefaultBounds); strings.Contains(r.Conclusion(), "p90") {
		t.Errorf("%q judges page times", r.Conclusion())
	}
}
