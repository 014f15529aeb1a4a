package netns

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"time"
)

// ErrUnavailable means that this machine or user cannot create network namespaces.
var ErrUnavailable = errors.New("network namespaces are not available")

// The addresses of the gateway, at which this process can serve names, and of all sites.
var (
	Gateway  = netip.MustParseAddr("10.64.0.1")
	gateway6 = netip.MustParseAddr("fd64::1")
	Sites    = []netip.Prefix{
		netip.MustParsePrefix("10.80.0.0/12"), netip.MustParsePrefix("fd80::/16"),
	}
)

// maxPeers is the number of peers that have addresses.
const maxPeers = 100

// Peer returns the address of peer i, in a /16 of its own.
func Peer(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(100 + i), 0, 1}) }

func peer6(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("fd64:%x::1", 0x100+i)) }

// A Syn is a packet with which a peer begins a TCP connection, or repeats that.
type Syn struct {
	At       time.Time // when it passed, by the clock of the kernel
	From, To netip.AddrPort
}

// Network is a network of one namespace per peer, joined by a bridge. Its methods must not be
// called concurrently.
type Network struct {
	ctx   context.Context
	peers int
}

// New creates the bridge, and for each peer a namespace and a port of the same name, p0 and so
// on. It must be called once, in a process that Run started, after Mount. ctx bounds New only.
func New(ctx context.Context, peers int) (*Network, error) {
	if peers < 1 || peers > maxPeers {
		return nil, fmt.Errorf("%d peers, want 1 to %d", peers, maxPeers)
	}
	n := &Network{ctx: ctx, peers: peers}
	lines := []string{
		"link set lo up",
		"link add br0 type bridge",
		"link set br0 up",
		fmt.Sprintf("addr add %v/32 dev br0", Gateway),
		fmt.Sprintf("addr add %v/128 dev br0 nodad", gateway6),
		fmt.Sprintf("route add local %v dev lo", Sites[0]),
		fmt.Sprintf("-6 route add local %v dev lo", Sites[1]),
		fmt.Sprintf("route add 10.0.0.0/8 dev br0 src %v", Gateway),
		fmt.Sprintf("-6 route add fd64::/16 dev br0 src %v", gateway6),
	}
	for i := range peers {
		lines = append(lines,
			fmt.Sprintf("netns add p%d", i),
			fmt.Sprintf("link add p%d type veth peer name eth0 netns p%d", i, i),
			fmt.Sprintf("link set p%d master br0 up", i),
			fmt.Sprintf("-n p%d link set lo up", i))
		lines = append(lines, linkUp(i)...)
	}
	if err := n.ip(lines); err != nil {
		return nil, err
	}
	n.ctx = context.WithoutCancel(ctx) // links are repaired after ctx ends, too
	return n, n.run(tables, "nft", "-f", "-")
}

// linkUp returns the commands that configure the interface of peer i, as a machine does when its
// link comes up.
func linkUp(i int) []string {
	var lines []string
	for _, l := range []string{
		"link set eth0 up",
		fmt.Sprintf("addr replace %v/32 dev eth0", Peer(i)),
		fmt.Sprintf("addr replace %v/128 dev eth0 nodad", peer6(i)),
		fmt.Sprintf("route replace %v dev eth0 src %v", Gateway, Peer(i)),
		// Peers are neighbours.
		fmt.Sprintf("route replace 10.96.0.0/11 dev eth0 src %v", Peer(i)),
		fmt.Sprintf("route replace 10.128.0.0/9 dev eth0 src %v", Peer(i)),
		fmt.Sprintf("route replace default via %v dev eth0 src %v", Gateway, Peer(i)),
		fmt.Sprintf("-6 route replace fd64::/16 dev eth0 src %v", peer6(i)),
		fmt.Sprintf("-6 route replace default via %v dev eth0 src %v", gateway6, peer6(i)),
	} {
		lines = append(lines, fmt.Sprintf("-n p%d %s", i, l))
	}
	return lines
}

// SetLink takes the interface of peer i down or up. Down removes its routes.
func (n *Network) SetLink(i int, up bool) error {
	if up {
		return n.ip(linkUp(i))
	}
	return n.ip([]string{fmt.Sprintf("-n p%d link set eth0 down", i)})
}

// SetCable unplugs or plugs the cable of peer i: its interface loses the carrier and keeps its
// addresses and routes.
func (n *Network) SetCable(i int, plugged bool) error {
	state := "down"
	if plugged {
		state = "up"
	}
	return n.ip([]string{fmt.Sprintf("link set p%d %s", i, state)})
}

// Command returns a command that runs the program on the host of peer i. "ip netns exec"
// replaces itself by the program, so that signals reach it.
func (n *Network) Command(i int, program string, args ...string) *exec.Cmd {
	cmd := exec.Command("ip", append([]string{"netns", "exec", fmt.Sprintf("p%d", i), program},
		args...)...)
	cmd.Env = os.Environ()
	return cmd
}

// ip runs commands of the program ip.
func (n *Network) ip(lines []string) error {
	for _, l := range lines {
		if err := n.run("", "ip", strings.Fields(l)...); err != nil {
			return err
		}
	}
	return nil
}

// run runs a command and waits for it.
func (n *Network) run(stdin, name string, args ...string) error {
	cmd := exec.CommandContext(n.ctx, name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err,
			strings.TrimSpace(string(out)))
	}
	return nil
}
