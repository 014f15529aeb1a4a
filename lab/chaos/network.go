package chaos

import (
	"net/netip"
	"os/exec"

	"peerd/lab/emulate/netns"
)

// A pair is a direction between two peers.
type pair struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// network is the network between peers and sites.
type network interface {
	// site and peer return the address of site or peer i; each is in its own /16 or /24.
	site(i int) netip.Addr
	peer(i int) netip.Addr
	// command returns a command that runs the program on the host of peer i.
	command(i int, program string, args ...string) *exec.Cmd
	// canCut reports whether setCuts is supported.
	canCut() bool
	// setCuts cuts exactly these directions and heals all others.
	setCuts(ps []pair) error
}

// addresses is the first byte of the addresses of peers, net.100+i.0.1, and sites, net.80.i.10.
type addresses byte

func (a addresses) site(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(a), 80, byte(i), 10})
}
func (a addresses) peer(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(a), byte(100 + i), 0, 1})
}

// loopback is a network on the loopback interface, without cuts.
type loopback struct{}

func (loopback) site(i int) netip.Addr { return addresses(127).site(i) }
func (loopback) peer(i int) netip.Addr { return addresses(127).peer(i) }
func (loopback) canCut() bool          { return false }
func (loopback) setCuts([]pair) error  { return nil }

func (loopback) command(_ int, program string, args ...string) *exec.Cmd {
	return exec.Command(program, args...)
}

// bridge is a network of one namespace per peer, with the addresses of package netns.
type bridge struct {
	addresses
	*netns.Network
}

func (b bridge) canCut() bool { return true }

func (b bridge) setCuts(ps []pair) error {
	faults := make([]netns.Fault, len(ps))
	for i, p := range ps {
		faults[i] = netns.CutPeers(p.From, p.To)
	}
	return b.SetFaults(faults...)
}

func (b bridge) command(i int, program string, args ...string) *exec.Cmd {
	return b.Command(i, program, args...)
}
