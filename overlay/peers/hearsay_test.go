package peers

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	ma "github.com/multiformats/go-multiaddr"

	"peerd/overlay"
	"peerd/overlay/wire"
)

// tell has a teller relay the beacon of a peer with these addresses.
func tell(t *testing.T, d *clockedDirectory, seed int64, told hearsay, addrs ...string) error {
	t.Helper()
	key, id := identity(t, seed)
	b := testBeacon(id, uint64(d.now.UnixMilli()), d.now)
	b.Addrs = addrs
	_, err := d.putHearsay(mustSeal(t, key, b), time.Second, told)
	return err
}

// hearsayAt returns the account of a peer with connections from networks of addresses.
func hearsayAt(by peer.ID, nears ...string) hearsay {
	told := hearsay{by: by}
	for _, s := range nears {
		if p, err := netip.ParsePrefix(s); err == nil {
			told.nears = append(told.nears, p)
		}
	}
	return told
}

// Hearsay fills a quarter of a directory, one teller an eighth, and one network of addresses a
// few places, however many beacons there are. Nothing of it is shown.
func TestHearsayIsBounded(t *testing.T) {
	_, self := identity(t, 1)
	local := func(i int) string { return fmt.Sprintf("/ip4/10.0.0.1/tcp/%d", i) }
	tests := map[string]struct {
		tellers int
		near    string // the network of all tellers
		addr    func(i int) string
		want    int
	}{
		"many tellers":   {50, "", local, 48},
		"one teller":     {1, "", local, 24},
		"tellers at one": {50, "11.7.0.0/24", local, 24},
		"one /24": {50, "", func(i int) string {
			return fmt.Sprintf("/ip4/11.0.0.%d/tcp/1", i%250)
		}, 8},
		"one /48": {50, "", func(i int) string {
			return fmt.Sprintf("/ip6/2a01:4f8:1:%x::1/tcp/1", i)
		}, 8},
		"one /16": {50, "", func(i int) string {
			return fmt.Sprintf("/ip4/11.0.%d.1/tcp/1", i%250)
		}, 24},
	}
	for name, c := range tests {
		d := testDirectory(self, 192)
		added := 0
		for i := range 120 {
			_, by := identity(t, int64(1000+i%c.tellers))
			switch err := tell(t, d, int64(2000+i), hearsayAt(by, c.near), c.addr(i)); {
			case err == nil:
				added++
			case !errors.Is(err, ErrFull):
				t.Fatal(err)
			}
		}
		if added != c.want || len(d.known()) != c.want {
			t.Errorf("%s: %d peers added, %d known, want %d", name, added, len(d.known()), c.want)
		}
		if n := len(d.All()); n > 0 || d.Len() != 0 {
			t.Errorf("%s: All() has %d peers, want none", name, n)
		}
		_, id := identity(t, 2000)
		if _, ok := d.Relayed(id); ok {
			t.Errorf("%s: Relayed() = true for hearsay, want false", name)
		}
	}
}

// Later beacons of peers known by hearsay cannot all have addresses in one network either, whoever
// relays them; the addresses of a peer that was heard are its own matter.
func TestAddressesOfHearsayAreBounded(t *testing.T) {
	_, self := identity(t, 1)
	_, by := identity(t, 2)
	d := testDirectory(self, 192)
	const n = 20
	for i := range n {
		addr := fmt.Sprintf("/ip4/11.%d.0.1/tcp/1", i)
		if err := tell(t, d, int64(10+i), hearsayAt(by), addr); err != nil {
			t.Fatal(err)
		}
	}
	_, heard := identity(t, 10)
	d.Touch(heard)
	d.now = d.now.Add(time.Second)
	moved := 0
	for i := range n {
		addr := fmt.Sprintf("/ip4/12.0.0.%d/tcp/1", i)
		switch err := tell(t, d, int64(10+i), hearsayAt(by), addr); {
		case err == nil:
			moved++
		case !errors.Is(err, ErrFull):
			t.Fatal(err)
		}
	}
	if moved != 1+nearHearsay {
		t.Errorf("%d of %d peers have moved to a /24, want the one that was heard and %d", moved, n,
			nearHearsay)
	}
}

// A peer is more than hearsay when it was heard itself, or when a second measured peer has told
// of it from another network. Networks that are not public do not count.
func TestHearsayIsConfirmed(t *testing.T) {
	_, self := identity(t, 1)
	_, a := identity(t, 2)
	_, b := identity(t, 3)
	key, id := identity(t, 4)
	at := hearsayAt
	first, local := at(a, "11.0.0.0/24"), at(a)
	then := func(told hearsay) func(*clockedDirectory, []byte) {
		return func(d *clockedDirectory, raw []byte) { _, _ = d.putHearsay(raw, 0, told) }
	}
	tests := map[string]struct {
		first hearsay
		then  func(*clockedDirectory, []byte)
		shown bool
	}{
		"nothing more": {first, func(*clockedDirectory, []byte) {}, false},
		"heard": {first, func(d *clockedDirectory, _ []byte) {
			d.Touch(id)
		}, true},
		"told again by the same": {first, then(at(a, "11.0.1.0/24")), false},
		"told by another":        {first, then(at(b, "11.0.1.0/24")), true},
		"of the same /24":        {first, then(at(b, "11.0.0.0/24")), false},
		"of one of its networks": {at(a, "2a01:4f8:1::/48", "11.0.0.0/24"),
			then(at(b, "11.0.0.0/24", "11.0.1.0/24")), false},
		"of other networks": {at(a, "2a01:4f8:1::/48", "11.0.0.0/24"),
			then(at(b, "11.0.1.0/24")), true},
		"of a local network":     {first, then(at(b)), true},
		"two of a local network": {local, then(at(b)), true},
		"one of a local network": {local, then(at(a)), false},
		"at an unknown distance": {first, then(hearsay{by: b, unsure: true}), false},
		"a new beacon by another": {first, func(d *clockedDirectory, _ []byte) {
			_, _ = d.putHearsay(mustSeal(t, key, testBeacon(id, 1<<60, d.now)), 0,
				at(b, "11.0.1.0/24"))
		}, true},
	}
	for name, c := range tests {
		d := testDirectory(self, 192)
		raw := mustSeal(t, key, testBeacon(id, 1, d.now))
		if _, err := d.putHearsay(raw, 0, c.first); err != nil {
			t.Fatal(err)
		}
		c.then(d, raw)
		if got := len(d.All()) == 1; got != c.shown {
			t.Errorf("%s: shown is %v, want %v", name, got, c.shown)
		}
	}
}

// Peers that are heard themselves cannot fill the directory from one site either.
func TestOneSiteFillsAQuarter(t *testing.T) {
	_, self := identity(t, 1)
	d := testDirectory(self, 64)
	for i := range 100 {
		key, id := identity(t, int64(10+i))
		b := testBeacon(id, 1, d.now)
		b.Addrs = []string{fmt.Sprintf("/ip4/11.0.0.%d/tcp/1", i)}
		if _, err := d.Put(mustSeal(t, key, b)); (err == nil) != (i < 16) {
			t.Fatalf("Put of peer %d of a /24: %v, want an error from the 17th", i, err)
		}
	}
}

// The word of a peer counts less if its distance was not measured, or if there is no connection of
// which to know the network; that of a local network counts.
func TestAccount(t *testing.T) {
	s, other := startService(t)
	id := other.Self()
	measured := func(p peer.ID) hearsay {
		s.states.mu.Lock()
		s.states.of(p).rtt = time.Millisecond
		s.states.mu.Unlock()
		return s.account(p)
	}
	_, gone := identity(t, 7)
	if told := measured(gone); !told.unsure {
		t.Errorf("%+v, without a connection", told)
	}
	if told := measured(id); told.by != id || told.unsure || len(told.nears) > 0 {
		t.Errorf("%+v, of a measured peer at a local network", told)
	}
	key, _ := identity(t, 7)
	b := testBeacon(gone, 1, time.Now())
	b.At = s.Coordinate()
	b.Addrs = []string{"/ip4/11.0.0.1/tcp/1", "/ip6/2a01:4f8:1::1/tcp/1", "/ip4/10.0.0.1/tcp/1"}
	if _, err := s.dir.Put(mustSeal(t, key, b)); err != nil {
		t.Fatal(err)
	}
	if told := s.account(gone); len(told.nears) != 2 {
		t.Errorf("%v are the networks of a peer with two public addresses", told.nears)
	}
}

// The addresses of a new beacon take the place of those of the one before; where a peer is
// connected is remembered.
func TestAddressesOfTheLastBeacon(t *testing.T) {
	s, _ := newService(t)
	key, id := identity(t, 7)
	known := s.cfg.Host.Peerstore()
	connected := ma.StringCast("/ip4/10.0.0.1/tcp/1")
	known.AddAddrs(id, []ma.Multiaddr{connected}, peerstore.ConnectedAddrTTL)
	for seq := range 3 {
		b := testBeacon(id, uint64(1+seq), time.Now())
		b.At = s.Coordinate()
		b.Addrs = []string{fmt.Sprintf("/ip4/11.0.0.%d/tcp/1", seq), "/ip4/11.0.1.1/tcp/1"}
		if err := s.addOwnBeacon(id, mustSeal(t, key, b)); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range known.Addrs(id) {
			got = append(got, a.String())
		}
		slices.Sort(got)
		if want := append([]string{connected.String()}, b.Addrs...); !slices.Equal(got, want) {
			t.Errorf("after beacon %d the addresses are %v, want %v", seq, got, want)
		}
	}
}

// lie runs an exchange in which the attacker relays beacons.
func lie(
	t *testing.T, attacker *overlay.Net, s *Service, own []byte, others []RelayedBeacon,
) error {
	t.Helper()
	c, err := wire.Dial(t.Context(), attacker.Host, s.cfg.Host.ID(),
		wire.Limits{MaxMsg: maxMessage, Timeout: time.Minute}, s.cfg.Protocol)
	if err != nil {
		return err
	}
	defer c.Reset()
	if err := errors.Join(c.Send(hello{Beacon: own}), c.Recv(new(welcome))); err != nil {
		return err
	}
	for i := range pingRounds {
		if err := errors.Join(c.Send(ping{Round: int64(i)}), c.Recv(new(pong))); err != nil {
			return err
		}
	}
	last := done{At: s.Coordinate(), Others: others}
	if err := errors.Join(c.Send(last), c.CloseWrite()); err != nil {
		return err
	}
	_ = c.Recv(new(pong)) // until the other side has ended it
	return nil
}

// 1,500 made-up beacons over one connection take a small part of the directory, are not
// shown, and send few connections to the address that they name.
func TestMadeUpBeacons(t *testing.T) {
	s, attacker := startService(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var dials atomic.Int64
	accepting := make(chan struct{})
	go func() {
		defer close(accepting)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			dials.Add(1)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = ln.Close(); <-accepting })
	target := fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", ln.Addr().(*net.TCPAddr).Port)

	ownKey, ownID := identity(t, 101)
	introduction := testBeacon(ownID, 1, time.Now())
	introduction.At = s.Coordinate()
	own := mustSeal(t, ownKey, introduction)
	sent, most := 0, 0
	began := time.Now()
	for round := range 24 {
		if time.Since(began) > 15*time.Second {
			break // the number of connections grows with time, not with what was sent
		}
		var others []RelayedBeacon
		for i := range maxFirstSync {
			key, id := identity(t, int64(10_000+round*maxFirstSync+i))
			b := testBeacon(id, 1, time.Now())
			b.Addrs, b.At = []string{target}, s.Coordinate()
			others = append(others, RelayedBeacon{Sealed: mustSeal(t, key, b)})
		}
		if err := lie(t, attacker, s, own, others); err != nil {
			t.Fatal(err)
		}
		sent += len(others)
		most = max(most, len(s.dir.allPresent())-1)
		for _, b := range s.dir.All() {
			if b.Peer != ownID {
				t.Fatalf("All() shows %s, which no peer has met", b.Peer)
			}
		}
	}
	limit := s.cfg.MaxPeers / tellerPart
	if most == 0 || most > limit {
		t.Errorf("%d of %d made-up peers in the directory, want 1 to %d", most, sent, limit)
	}
	t.Logf("%d beacons sent, %d in the directory at most, %d connections to the target", sent,
		most, dials.Load())
	if n := dials.Load(); n > 300 {
		t.Errorf("%d connections to the address in the beacons, want few", n)
	}
}

// The beacon of another peer is not accepted as that of the sender.
func TestBeaconOfAnotherPeer(t *testing.T) {
	s, attacker := startService(t)
	key, id := identity(t, 5)
	b := testBeacon(id, 1, time.Now())
	b.At = s.Coordinate()
	sealed := mustSeal(t, key, b)
	c, err := wire.Dial(t.Context(), attacker.Host, s.cfg.Host.ID(),
		wire.Limits{MaxMsg: maxMessage, Timeout: time.Minute}, s.cfg.HeartbeatProtocol)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Reset()
	if err := c.Send(heartbeat{Beacon: sealed}); err != nil {
		t.Fatal(err)
	}
	if err := c.Recv(new(heartbeat)); err == nil {
		t.Error("a push of another peer's beacon was answered, want a reset")
	}
	if _, ok := s.dir.Get(id); ok {
		t.Error("the directory has the beacon, want not")
	}
	if _, ok := wire.Met(s.cfg.Host.Peerstore(), attacker.Self()); ok {
		t.Error("the sender counts as introduced, want not")
	}
}

// A push is answered with the beacon of the receiver, which is sent once; too many are refused, and
// too many heartbeats with a payload.
func TestPushes(t *testing.T) {
	s, other := startService(t)
	key, id := identity(t, 101)
	c, err := wire.Dial(t.Context(), other.Host, s.cfg.Host.ID(),
		wire.Limits{MaxMsg: maxMessage, Timeout: time.Minute}, s.cfg.HeartbeatProtocol)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Reset()
	push := func(h heartbeat) (answer heartbeat, err error) {
		return answer, errors.Join(c.Send(h), c.Recv(&answer))
	}
	b := testBeacon(id, 1, time.Now())
	b.At = s.Coordinate()
	answer, err := push(heartbeat{Beacon: mustSeal(t, key, b)})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Open(answer.Beacon, s.cfg.Topic, s.dims)
	if err != nil || got.Peer != s.cfg.Host.ID() {
		t.Errorf("the answer has the beacon of %v (%v), want that of the receiver", got.Peer, err)
	}
	if _, ok := s.dir.Get(id); !ok {
		t.Error("the directory lacks the beacon that was pushed")
	}
	answers, beacons := 0, 0
	for range 2 * payloadRate.Burst {
		if _, err = push(heartbeat{Payload: []byte("payload")}); err != nil {
			break
		}
		answers++
	}
	if answers < payloadRate.Burst || err == nil {
		t.Errorf("%d of %d heartbeats in a row were answered, want about %d", answers,
			2*payloadRate.Burst, payloadRate.Burst)
	}
	c, err = wire.Dial(t.Context(), other.Host, s.cfg.Host.ID(),
		wire.Limits{MaxMsg: maxMessage, Timeout: time.Minute}, s.cfg.HeartbeatProtocol)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Reset()
	answers = 0
	for range 2 * helloRate.Burst {
		if answer, err = push(heartbeat{}); err != nil {
			break
		}
		answers++
		if len(answer.Beacon) > 0 {
			beacons++
		}
	}
	if answers < helloRate.Burst/2 || err == nil {
		t.Errorf("%d of %d pushes in a row were answered, want about %d", answers,
			2*helloRate.Burst, helloRate.Burst)
	}
	if beacons > answers/2 {
		t.Errorf("%d of %d answers have a beacon, want those after a new one", beacons, answers)
	}
}
