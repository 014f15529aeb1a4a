package main

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
)

// A pair is a direction: from one peer to another.
type pair struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// wires are what lies between peers and sites.
type wires interface {
	// site and peer return the address of one; each is in a /16 or /24 of its own.
	site(i int) netip.Addr
	peer(i int) netip.Addr
	// command is the program, run where peer i is.
	command(i int, program string, args ...string) *exec.Cmd
	// cuts says whether set can cut anything.
	cuts() bool
	// set cuts exactly these directions.
	set(ps []pair) error
}

// addresses are those of the peers, net.100+i.0.1, and sites, net.80.i.10.
type addresses byte

func (a addresses) site(i int) netip.Addr { return netip.AddrFrom4([4]byte{byte(a), 80, byte(i), 10}) }
func (a addresses) peer(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(a), byte(100 + i), 0, 1})
}

// loopback has all in one place.
type loopback struct{}

func (loopback) site(i int) netip.Addr { return addresses(127).site(i) }
func (loopback) peer(i int) netip.Addr { return addresses(127).peer(i) }
func (loopback) cuts() bool            { return false }
func (loopback) set([]pair) error      { return nil }

func (loopback) command(_ int, program string, args ...string) *exec.Cmd {
	return exec.Command(program, args...)
}

// bridge joins the peers' networks. It exists in namespaces of our own only.
type bridge struct {
	addresses
	ctx context.Context
}

// newBridge makes it, and a network for each peer, named p0 and so on like the
// port that leads there. Everything is on one link, whatever its address.
func newBridge(ctx context.Context, peers int) (*bridge, error) {
	b := &bridge{addresses: 10, ctx: ctx}
	lines := []string{
		"link set lo up",
		"link add br0 type bridge",
		"link set br0 up",
		"addr add 10.64.0.1/32 dev br0",
		"route add local 10.80.0.0/16 dev lo", // all sites are here
		"route add 10.0.0.0/8 dev br0 src 10.64.0.1",
	}
	for i := range peers {
		lines = append(lines,
			fmt.Sprintf("netns add p%d", i),
			fmt.Sprintf("link add p%d type veth peer name eth0 netns p%d", i, i),
			fmt.Sprintf("link set p%d master br0 up", i),
			fmt.Sprintf("-n p%d link set lo up", i),
			fmt.Sprintf("-n p%d link set eth0 up", i),
			fmt.Sprintf("-n p%d addr add %v/32 dev eth0", i, b.peer(i)),
			fmt.Sprintf("-n p%d route add default dev eth0 src %v", i, b.peer(i)))
	}
	for _, l := range lines {
		if err := b.tool("", "ip", strings.Fields(l)...); err != nil {
			return nil, err
		}
	}
	b.ctx = context.WithoutCancel(ctx) // cuts are healed at the very end, too
	return b, b.nft("table bridge chaos {\n" +
		"\tset cut { type ifname . ifname; }\n" +
		"\tchain forward { type filter hook forward priority 0; iifname . oifname @cut drop; }\n}\n")
}

// tool runs a command to its end.
func (b *bridge) tool(stdin, name string, args ...string) error {
	cmd := exec.CommandContext(b.ctx, name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

func (b *bridge) nft(rules string) error { return b.tool(rules, "nft", "-f", "-") }

func (b *bridge) cuts() bool { return true }

// set is one transaction: no packet sees a part of it.
func (b *bridge) set(ps []pair) error {
	rules := "flush set bridge chaos cut\n"
	for _, p := range ps {
		rules += fmt.Sprintf("add element bridge chaos cut { \"p%d\" . \"p%d\" }\n", p.From, p.To)
	}
	return b.nft(rules)
}

// command is replaced by the program itself, so that signals reach that.
func (b *bridge) command(i int, program string, args ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", fmt.Sprintf("p%d", i), program}, args...)...)
}
