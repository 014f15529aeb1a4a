package join

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"peerd/internal/order"
	"peerd/node/config"
	"peerd/overlay/admission"
)

// MaxValid is the longest time for which an invitation is valid, and MaxUses the largest number of
// peers that may join with it.
const (
	MaxValid = admission.MaxValid
	MaxUses  = admission.MaxUses
)

// Explain says in plain words what the rules of p mean: one line for each.
func Explain(p config.Profile) []string {
	line := func(word, format string, args ...any) string {
		return fmt.Sprintf("%-11s", word) + fmt.Sprintf(format, args...)
	}
	lines := []string{
		line("network", "%s; peers with other rules are in another network", p.NetworkID()),
		line("crawls", "%s", explainScope(p)),
	}
	if len(p.Seeds) > 0 {
		lines = append(lines, line("starts at", "%s", strings.Join(p.Seeds, " ")))
	}
	lines = append(lines, line("waits", "%s between two requests to a host, at least",
		max(p.Politeness.MinDelay.Duration, 0)))
	if day := p.Politeness.HostDay; day > 0 {
		lines = append(lines, line("asks", "a host at most %d times a day", day))
	}
	who := map[admission.Mode]string{
		admission.Invite: "invite: founders, and peers with an invitation of a founder",
		admission.Closed: "closed: founders, and peers that a founder has named by their ID",
	}[admission.Mode(p.Admission)]
	if p.AdmissionOpen() {
		who = "open: everyone who knows these rules can join, also with bad intentions; " +
			"only limits by address protect the network"
	}
	lines = append(lines, line("admits", "%s", who))
	for _, f := range p.Founders {
		lines = append(lines, line("founder", "%s; its key cannot be replaced, so back it up", f))
	}
	return lines
}

func explainScope(p config.Profile) string {
	s := p.Scope
	text := map[string]string{
		"hosts":   "the hosts " + strings.Join(s.Hosts, " "),
		"domains": "the domains " + strings.Join(s.Domains, " "),
		"regex":   "URLs that match " + strings.Join(s.Include, " "),
		"any":     "every web page that is linked",
	}[s.Mode]
	if len(p.Seeds) > 0 && (s.Mode == "hosts" || s.Mode == "domains") {
		if len(s.Hosts)+len(s.Domains) > 0 {
			text += ", and those"
		}
		text = strings.TrimSpace(text) + " of the seeds"
	}
	if len(s.Exclude) > 0 {
		text += ", except URLs that match " + strings.Join(s.Exclude, " ")
	}
	return text
}

// Shareable returns the addresses of addrs by which other machines can reach a peer, public ones
// first; if there are none, those of loopback.
func Shareable(addrs []string) []string {
	rank := func(text string) int {
		a, err := ma.NewMultiaddr(text)
		switch {
		case err != nil || manet.IsIP6LinkLocal(a):
			return 3
		case manet.IsIPLoopback(a):
			return 2
		case manet.IsPublicAddr(a):
			return 0
		}
		return 1
	}
	all := slices.DeleteFunc(slices.Clone(addrs), func(a string) bool { return rank(a) > 2 })
	order.SortStableFunc(all, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	if len(all) > 0 && rank(all[0]) < 2 {
		all = slices.DeleteFunc(all, func(a string) bool { return rank(a) == 2 })
	}
	return all
}

// ParseAddr returns the multiaddr of the peer self for HOST:PORT, which stands for TCP, or for a
// multiaddr with or without its ID.
func ParseAddr(text string, self peer.ID) (string, error) {
	if !strings.HasPrefix(text, "/") {
		host, port, err := net.SplitHostPort(text)
		if err != nil || host == "" {
			return "", fmt.Errorf("%q: want HOST:PORT or a multiaddr", text)
		}
		kind := "dns"
		if ip, err := netip.ParseAddr(host); err == nil {
			kind = map[bool]string{true: "ip4", false: "ip6"}[ip.Is4()]
		}
		text = fmt.Sprintf("/%s/%s/tcp/%s", kind, host, port)
	}
	end := "/p2p/" + self.String()
	if !strings.Contains(text, "/p2p/") {
		text += end
	}
	info, err := peer.AddrInfoFromString(text)
	if err != nil || info.ID != self || len(info.Addrs) == 0 {
		return "", fmt.Errorf("%q: not an address of the peer %s", text, self)
	}
	return text, nil
}
