package overlay

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	ma "github.com/multiformats/go-multiaddr"

	"peerd/overlay/overlaytest"
)

// freeAddr returns an address of loopback on which no peer listens.
func freeAddr(t *testing.T) ma.Multiaddr {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	return ma.StringCast(fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", port))
}

// An address that cannot be reached is logged once, with the reason, and once more when
// it is reached.
func TestBootstrapUnreachable(t *testing.T) {
	t.Parallel()
	addr := freeAddr(t)
	_, id := overlaytest.Identity(1)
	n, log := startLogged(t, 2, "test-net", peer.AddrInfo{ID: id, Addrs: []ma.Multiaddr{addr}})
	eventually(t, "several attempts have failed", func() bool {
		return len(log.with("failed to join through peer")) >= 3
	})
	const warning = "level=WARN msg=\"failed to reach bootstrap address\""
	got := log.with(warning)
	if len(got) != 1 || !strings.Contains(got[0], "connection refused") ||
		!strings.Contains(got[0], addr.String()) || !strings.Contains(got[0], "retry_in=") {
		t.Errorf("log = %q, want one line with address, reason and retry_in", got)
	}
	want := addr.String() + "/p2p/" + id.String()
	state := n.Bootstrap()
	if len(state) != 1 || state[0].Addr != want || state[0].Connected ||
		!strings.Contains(state[0].LastError, "connection refused") ||
		state[0].NextAttempt.IsZero() {
		t.Errorf("Bootstrap() = %+v, want one failed attempt at %s", state, want)
	}

	cfg := testConfig(t, 1, "test-net")
	cfg.Listen = []string{addr.String()}
	first, err := New(cfg)
	if err != nil {
		t.Skipf("the address was taken: %v", err)
	}
	runNet(t, first)
	eventually(t, "connected", func() bool { return n.Bootstrap()[0].Connected })
	if s := n.Bootstrap()[0]; s.LastError != "" || !s.NextAttempt.IsZero() {
		t.Errorf("Bootstrap() = %+v, want no error once connected", s)
	}
	eventually(t, "it is logged", func() bool {
		return len(log.with("level=INFO msg=\"reached bootstrap peer\"")) == 1
	})
	if got := log.with(warning); len(got) != 1 {
		t.Errorf("log = %q, want one line", got)
	}
}

// That the library pauses after a dial that failed is not why an address cannot be reached.
func TestBootstrapAfterAnotherDial(t *testing.T) {
	t.Parallel()
	addr := freeAddr(t)
	_, id := overlaytest.Identity(1)
	log := slog.New(slog.DiscardHandler)
	info, now := peer.AddrInfo{ID: id, Addrs: []ma.Multiaddr{addr}}, time.Now()
	var a attempts
	for _, cause := range []error{swarm.ErrDialBackoff, errors.New("connection refused"),
		swarm.ErrDialBackoff} {
		a.record(log, info, &swarm.DialError{Peer: id,
			DialErrors: []swarm.TransportError{{Address: addr, Cause: cause}}}, now, now)
	}
	x := a.all[bootstrapAddr(id, addr)]
	if x == nil || x.err != "connection refused" || x.logged != failureUnreachable {
		t.Errorf("attempt = %+v, want the reason of the dial that failed", x)
	}
}

// An address with the ID of another peer is logged as such, and tried again only later.
func TestBootstrapWrongID(t *testing.T) {
	other := newNet(t, 1, "test-net")
	_, id := overlaytest.Identity(3)
	n, log := startLogged(t, 2, "test-net", peer.AddrInfo{ID: id, Addrs: other.Host.Addrs()})
	eventually(t, "the error names the other peer", func() bool {
		return strings.Contains(n.Bootstrap()[0].LastError, other.Self().String())
	})
	if state := n.Bootstrap()[0]; time.Until(state.NextAttempt) < refusedRetryMin/4 {
		t.Errorf("Bootstrap() = %+v, want a long pause", state)
	}
	got := log.with("level=WARN msg=\"bootstrap address belongs to another peer")
	if len(got) != 1 {
		t.Errorf("log = %q, want one warning about the peer ID", got)
	}
}

func TestBootstrapLeavesOutSelf(t *testing.T) {
	_, id := overlaytest.Identity(1)
	n, _ := startLogged(t, 1, "test-net", peer.AddrInfo{ID: id, Addrs: []ma.Multiaddr{freeAddr(t)}})
	if got := n.Bootstrap(); len(got) != 0 {
		t.Errorf("Bootstrap() = %+v, want nothing", got)
	}
}
