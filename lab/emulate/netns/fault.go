package netns

import (
	"fmt"
	"net/netip"
	"strings"
)

// tables are the chains to which faults add rules. Those of the family bridge see the ports, those
// of the family inet can refuse.
const tables = `
table bridge faults {
	chain input { type filter hook input priority 0; }
	chain forward { type filter hook forward priority 0; }
	chain output { type filter hook output priority 0; }
}
table inet faults {
	chain input { type filter hook input priority 0; }
	chain output { type filter hook output priority 0; }
}
`

var chains = []string{
	"bridge faults input", "bridge faults forward", "bridge faults output",
	"inet faults input", "inet faults output",
}

// A Fault drops or refuses packets.
type Fault struct {
	rules []string // of nftables, without "add rule"
}

// CutPeer drops all packets from and to peer i, as if its router had failed.
func CutPeer(i int) Fault {
	return Fault{[]string{
		fmt.Sprintf(`bridge faults input iifname "p%d" drop`, i),
		fmt.Sprintf(`bridge faults forward iifname "p%d" drop`, i),
		fmt.Sprintf(`bridge faults forward oifname "p%d" drop`, i),
		fmt.Sprintf(`bridge faults output oifname "p%d" drop`, i),
	}}
}

// CutUplink drops all packets of peer i except those between it and the gateway: its router
// answers, but has lost its own link.
func CutUplink(i int) Fault {
	port := fmt.Sprintf(`"p%d"`, i)
	return Fault{[]string{
		"bridge faults input iifname " + port + " ether type ip" +
			" ip daddr != " + Gateway.String() + " drop",
		"bridge faults input iifname " + port + " ether type ip6" +
			" ip6 daddr " + Sites[1].String() + " drop",
		"bridge faults forward iifname " + port + " drop",
		"bridge faults forward oifname " + port + " drop",
	}}
}

// CutPeers drops the packets from one peer to another, in this direction only.
func CutPeers(from, to int) Fault {
	return Fault{[]string{
		fmt.Sprintf(`bridge faults forward iifname "p%d" oifname "p%d" drop`, from, to),
	}}
}

// CutSites drops the packets between peer i and the addresses in ps.
func CutSites(i int, ps ...netip.Prefix) Fault {
	var f Fault
	for _, family := range families(ps) {
		f.rules = append(f.rules,
			fmt.Sprintf(`bridge faults input iifname "p%d" %s daddr %s drop`, i, family.name,
				family.set),
			fmt.Sprintf(`bridge faults output oifname "p%d" %s saddr %s drop`, i, family.name,
				family.set))
	}
	return f
}

// Drop drops all packets from and to the addresses in ps.
func Drop(ps ...netip.Prefix) Fault {
	var f Fault
	for _, family := range families(ps) {
		f.rules = append(f.rules,
			fmt.Sprintf("inet faults input %s daddr %s drop", family.name, family.set),
			fmt.Sprintf("inet faults output %s saddr %s drop", family.name, family.set))
	}
	return f
}

// Refuse resets all TCP connections to the addresses in ps, new ones and those that are open, as
// a machine does on which the server does not run.
func Refuse(ps ...netip.Prefix) Fault {
	var f Fault
	for _, family := range families(ps) {
		f.rules = append(f.rules, fmt.Sprintf(
			"inet faults input meta l4proto tcp %s daddr %s reject with tcp reset", family.name,
			family.set))
	}
	return f
}

// Loss drops this share of all packets, from 0 to 1.
func Loss(share float64) Fault {
	var f Fault
	for _, chain := range chains[:3] {
		f.rules = append(f.rules, fmt.Sprintf("%s numgen random mod 10000 < %d drop", chain,
			int(share*10000)))
	}
	return f
}

// family is the part of some prefixes that is in one address family.
type family struct {
	name string // of nftables
	set  string
}

func families(ps []netip.Prefix) []family {
	sets := map[string][]string{}
	for _, p := range ps {
		name := "ip"
		if p.Addr().Is6() {
			name = "ip6"
		}
		sets[name] = append(sets[name], p.Masked().String())
	}
	var all []family
	for _, name := range []string{"ip", "ip6"} {
		if len(sets[name]) > 0 {
			all = append(all, family{name, "{ " + strings.Join(sets[name], ", ") + " }"})
		}
	}
	return all
}

// SetFaults replaces all faults by these, in one step.
func (n *Network) SetFaults(faults ...Fault) error {
	var rules strings.Builder
	for _, chain := range chains {
		fmt.Fprintf(&rules, "flush chain %s\n", chain)
	}
	for _, f := range faults {
		for _, rule := range f.rules {
			fmt.Fprintf(&rules, "add rule %s\n", rule)
		}
	}
	return n.run(rules.String(), "nft", "-f", "-")
}
