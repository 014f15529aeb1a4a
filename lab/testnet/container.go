package testnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"

	"peerd/lab/emulate/faulty"
	"peerd/lab/emulate/web"
)

// The ports of a site in a container.
const (
	sitePort = 8080
	bindPort = 8081 // /-/audit and /-/sites
)

// maxContainers is the number of /24s of a network that are for sites. The first is for the
// addresses that the container engine assigns, the last for the name server.
const maxContainers = 250

// siteAddr returns the address of a site in a container: each has a /24 of the network, so that
// subnets can be shared out.
func siteAddr(network netip.Prefix, site int) netip.Addr {
	return hostAddr(network, byte(site+1), 10)
}

// namesAddr returns the address of the name server, which site 0 runs.
func namesAddr(network netip.Prefix) netip.Addr { return hostAddr(network, 255, 53) }

func hostAddr(network netip.Prefix, third, last byte) netip.Addr {
	a := network.Masked().Addr().As4()
	a[2], a[3] = third, last
	return netip.AddrFrom4(a)
}

// enter gives a site in a container its number, that of the container in its service, and its
// address in o.Net.
func (o *SiteOptions) enter(ctx context.Context) error {
	if !o.Net.Addr().Is4() || o.Net.Bits() != 16 || o.Of > maxContainers {
		return fmt.Errorf("site: %d sites in %s: want an IPv4 /16, and at most %d sites", o.Of,
			o.Net, maxContainers)
	}
	own, err := ownAddr(o.Net)
	if err != nil {
		return fmt.Errorf("site: address of this container: %w", err)
	}
	n, err := replicaAt(ctx, own)
	if err != nil {
		return fmt.Errorf("site: number of this container: %w", err)
	}
	if n > o.Of {
		return fmt.Errorf("site: this is container %d of the service, want %d as --of says", n,
			o.Of)
	}
	addrs := []netip.Addr{siteAddr(o.Net, n-1)}
	if n == 1 {
		addrs = append(addrs, namesAddr(o.Net))
	}
	if err := addAddresses(addrs); err != nil {
		return fmt.Errorf("site: add address: %w", err)
	}
	o.Number, o.Listen = n-1, netip.AddrPortFrom(addrs[0], sitePort).String()
	o.Bind = fmt.Sprintf(":%d", bindPort)
	return nil
}

// ownAddr returns the address of this machine in a network.
func ownAddr(network netip.Prefix) (netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, err
	}
	for _, a := range all {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && network.Contains(p.Addr()) {
			return p.Addr(), nil
		}
	}
	return netip.Addr{}, fmt.Errorf("no address in %s", network)
}

// replicaAt returns the number of the container with an address. The engine's name server is asked;
// the hosts file knows another name.
func replicaAt(ctx context.Context, at netip.Addr) (int, error) {
	conf, err := dns.ClientConfigFromFile("/etc/resolv.conf")
	if err != nil {
		return 0, err
	}
	reverse, err := dns.ReverseAddr(at.String())
	if err != nil {
		return 0, err
	}
	q := new(dns.Msg).SetQuestion(reverse, dns.TypePTR)
	for _, server := range conf.Servers {
		r, err := dns.ExchangeContext(ctx, q, net.JoinHostPort(server, conf.Port))
		if err != nil {
			return 0, err
		}
		for _, rr := range r.Answer {
			if ptr, ok := rr.(*dns.PTR); ok {
				return replica(ptr.Ptr)
			}
		}
	}
	return 0, fmt.Errorf("no name server knows %s", at)
}

// replica returns the number in the name of a container: 3 in peerd_site_3.peerd_web and in
// peerd-site-3.peerd_web.
func replica(name string) (int, error) {
	first, _, _ := strings.Cut(name, ".")
	n, err := strconv.Atoi(first[strings.LastIndexAny(first, "_-")+1:])
	if err != nil || n < 1 {
		return 0, fmt.Errorf("the container's name %q does not end with a number", first)
	}
	return n, nil
}

// serveNames answers for the names of all sites until ctx ends.
func serveNames(ctx context.Context, at netip.Addr, sites []web.Site) error {
	names := faulty.NewNames(time.Minute)
	for _, s := range sites {
		names.Set(s.Host, s.Addrs...)
	}
	addr := netip.AddrPortFrom(at, 53).String()
	udp, err := net.ListenPacket("udp", addr)
	if err != nil {
		return fmt.Errorf("site: names: %w", err)
	}
	tcp, err := net.Listen("tcp", addr)
	if err != nil {
		return errors.Join(fmt.Errorf("site: names: %w", err), udp.Close())
	}
	return names.Serve(ctx, udp, tcp)
}
