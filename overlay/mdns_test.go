package overlay

import (
	"net"
	"slices"
	"testing"
	"time"

	record "github.com/libp2p/go-libp2p-record"
	"github.com/libp2p/go-libp2p/core/peer"
)

// multicastAddr returns the address of an interface that delivers its own multicast to
// this process; it skips the test if there is none.
func multicastAddr(t *testing.T) net.IP {
	t.Helper()
	ifs, err := net.Interfaces()
	if err != nil {
		t.Skipf("no interfaces: %v", err)
	}
	for _, i := range ifs {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagMulticast == 0 ||
			i.Flags&net.FlagLoopback != 0 {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			ip, ok := a.(*net.IPNet)
			if ok && ip.IP.To4() != nil && hears(&i, ip.IP) {
				return ip.IP
			}
		}
	}
	t.Skip("no interface receives its own multicast, which mDNS needs")
	return nil
}

// hears reports whether an interface receives what it sends to a multicast group.
func hears(i *net.Interface, from net.IP) bool {
	group := &net.UDPAddr{IP: net.IPv4(239, 255, 77, 77), Port: 47077}
	in, err := net.ListenMulticastUDP("udp4", i, group)
	if err != nil {
		return false
	}
	defer in.Close()
	out, err := net.DialUDP("udp4", &net.UDPAddr{IP: from}, group)
	if err != nil {
		return false
	}
	defer out.Close()
	if _, err := out.Write([]byte("hello")); err != nil ||
		in.SetReadDeadline(time.Now().Add(5*time.Second)) != nil {
		return false
	}
	_, _, err = in.ReadFromUDP(make([]byte, 16))
	return err == nil
}

// Peers of one network find each other on a local network without bootstrap addresses,
// and do not connect to those of another network.
func TestMDNS(t *testing.T) {
	at := multicastAddr(t)
	var nets []*Net
	for i, name := range []string{"lan-net", "lan-net", "other-net"} {
		cfg := DefaultConfig()
		cfg.Key, cfg.Network, cfg.MDNS = testKey(t, int64(70+i)), name, true
		cfg.Listen = []string{"/ip4/" + at.String() + "/tcp/0"}
		cfg.Validators = map[string]record.Validator{"test": newest{}}
		n, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		runNet(t, n)
		nets = append(nets, n)
	}
	eventually(t, "they know each other", func() bool {
		return connected(nets[0], nets[1]) && connected(nets[1], nets[0]) &&
			nets[0].DHT.RoutingTable().Size() == 1
	})
	if connected(nets[2], nets[0]) || connected(nets[2], nets[1]) {
		t.Error("a peer of another network is connected, want it left alone")
	}
}

// A peer that was found on the local network is tried at once, however many were found with it, and
// again if it could not be reached: mDNS does not find it a second time.
func TestFoundPeersAreKept(t *testing.T) {
	n, err := New(testConfig(t, 1, "test-net"))
	if err != nil {
		t.Fatal(err)
	}
	j := newJoiner(n)
	later, err := New(testConfig(t, 2, "test-net"))
	if err != nil {
		t.Fatal(err)
	}
	late := infoOf(later)
	if err := later.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range 3 * dialConcurrency {
		j.HandlePeerFound(lostPeerInfo(i))
	}
	j.HandlePeerFound(late)
	j.HandlePeerFound(infoOf(n))
	now := time.Now()
	infos, _ := j.lost.due(now, maxLost, func(peer.ID) bool { return false })
	if len(infos) != 3*dialConcurrency+1 {
		t.Errorf("%d peers are tried at once, want %d and not this peer itself", len(infos),
			3*dialConcurrency+1)
	}
	if j.try(t.Context(), []peer.AddrInfo{late}, time.Minute) {
		t.Error("reached a peer that is not there")
	}
	runNet(t, n)
	cfg := testConfig(t, 2, "test-net")
	cfg.Listen = []string{late.Addrs[0].String()}
	again, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	runNet(t, again)
	infos, _ = j.lost.due(now.Add(time.Minute), maxLost, func(peer.ID) bool { return false })
	infos = slices.DeleteFunc(infos, func(i peer.AddrInfo) bool { return i.ID != late.ID })
	if len(infos) != 1 {
		t.Fatal("a peer that was found while it could not be reached is not tried again")
	}
	eventually(t, "connected to it", func() bool {
		return j.try(t.Context(), infos, time.Minute) && connected(n, again)
	})
}
