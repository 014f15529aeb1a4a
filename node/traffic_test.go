package node

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"peerd/node/admin"
	"peerd/node/config"
	"peerd/node/traffic"
	"peerd/store/kv"
)

// useUp sends over connections of a class until the volume is used up.
func useUp(t *testing.T, n *Node, c traffic.Class) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		if c, err := ln.Accept(); err == nil {
			_, _ = io.Copy(io.Discard, c)
			c.Close()
		}
	}()
	d := traffic.Dialer{Limiter: n.traffic, Class: c}
	conn, err := d.DialContext(t.Context(), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for err == nil {
		_, err = conn.Write(make([]byte, 32<<10))
	}
	if !errors.Is(err, traffic.ErrUsedUp) {
		t.Fatal(err)
	}
}

// A peer with a full disk ends without error: the count of its traffic that is stored is higher.
func TestStopFull(t *testing.T) {
	o := options(t)
	o.Config.Traffic.MonthlyVolume = 20e6
	disk := kv.NewDisk()
	o.Emulation = &Emulation{Disk: disk}
	n := newNode(t, o)
	disk.SetFull(true)
	n.Stop()
	if err := n.Run(t.Context()); err != nil {
		t.Errorf("Run() = %v", err)
	}
}

// A peer without volume for the crawl fetches nothing and hands its subnets over. Without any it is
// offline, says so, and is back when it gets more; and it uses TCP only while it has a limit.
func TestMonthlyVolume(t *testing.T) {
	other := newNode(t, options(t))
	defer running(t, other)()
	o := options(t)
	o.Config.Traffic.MonthlyVolume = 20e6
	o.Config.Bootstrap = other.Addrs()
	n := newNode(t, o)
	defer running(t, n)()
	connected := func() bool { return len(n.net.Host.Network().Peers()) > 0 }
	until(t, time.Minute, "the peers meet", connected)
	quic := func() bool { return strings.Contains(strings.Join(n.Addrs(), " "), "quic") }
	if quic() {
		t.Errorf("listens on %q", n.Addrs())
	}
	volume := func() admin.Limit { return n.trafficLimits()[1] }
	if s := n.Status(); len(s.Blocked) > 0 || volume().Active || n.limits(time.Now()).Closed {
		t.Errorf("at first: %+v, %+v", s.Blocked, volume())
	}

	useUp(t, n, traffic.Crawl)
	now := time.Now()
	if n.fetchWait(now) == 0 || n.mayClaim(now) == nil || !n.limits(now).Closed ||
		!(&measured{n: n}).blocked(now)["volume"] || !volume().Blocked {
		t.Error("the peer fetches without volume for it")
	}
	h := n.Status().Health
	if h.State != admin.HealthHeldBack || !strings.Contains(h.Why, "traffic.monthly_volume") ||
		!strings.Contains(h.Do, "peerd reload") {
		t.Errorf("health = %+v", h)
	}
	if !connected() {
		t.Error("the peer has left its network")
	}

	useUp(t, n, traffic.Control)
	until(t, time.Minute, "the peer is offline", func() bool { return !connected() })
	if h := n.Status().Health; h.State != admin.HealthHeldBack ||
		!strings.Contains(h.Why, "offline") {
		t.Errorf("health = %+v", h)
	}
	if err := n.net.Host.Connect(t.Context(), other.net.Host.Peerstore().PeerInfo(
		other.ID())); err == nil {
		t.Error("the peer has connected without volume")
	}
	if u := n.traffic.Usage(); u.Month > 20e6 {
		t.Errorf("used %d bytes", u.Month)
	}

	more := config.Traffic{MonthlyVolume: 40e6}
	if err := n.changeTraffic(more); err != nil {
		t.Fatal(err)
	}
	until(t, time.Minute, "the peer is back", connected)
	if n.untilOpen(time.Now()) > 0 {
		t.Error("nothing is fetched with more volume")
	}
	if err := n.changeTraffic(config.Traffic{}); err != nil {
		t.Fatal(err)
	}
	// The host learns of its listeners' addresses by events.
	until(t, time.Minute, "without a limit the peer listens with QUIC", quic)
	if err := n.changeTraffic(more); err != nil {
		t.Fatal(err)
	}
	until(t, time.Minute, "with a limit it does not", func() bool { return !quic() })
}
