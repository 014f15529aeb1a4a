// Package doctor examines a home and this machine for what keeps a peer from working, and says
// what to do. It changes nothing, and asks the running peer if there is one.
package doctor

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"peerd/crawl/resolve"
	"peerd/node/admin"
	"peerd/node/config"
	"peerd/store/warc"
)

// State is the result of one check.
type State string

// The states.
const (
	OK   State = "ok"
	Warn State = "warning" // the peer works, but not as well as it could
	Fail State = "failed"  // the peer does not work
)

// A Finding is the result of one check.
type Finding struct {
	Check string `json:"check"`
	State State  `json:"state"`
	Text  string `json:"text"`
	Do    string `json:"do"` // what the operator can do; "" if OK
}

const (
	// minFiles is how many open files a peer needs: connections to peers and web servers, and
	// tables of the store.
	minFiles = 1024
	// dialTimeout bounds one connection, and lookupTimeout one name.
	dialTimeout   = 5 * time.Second
	lookupTimeout = 10 * time.Second
	// maxSkew is the difference of clocks that is reported, although peers tolerate more.
	maxSkew = 30 * time.Second
)

// patient is what is examined.
type patient struct {
	home    config.Home
	conf    config.Config
	profile config.Profile
	status  *admin.Status // nil: the peer does not run
	peers   []admin.Peer
	listen  func(ctx context.Context, network, addr string) (net.Listener, error)
	roots   func() (*x509.CertPool, error)

	all []Finding
}

func (p *patient) add(check string, s State, do, format string, args ...any) {
	p.all = append(p.all, Finding{check, s, fmt.Sprintf(format, args...), do})
}

// Examine returns the findings of all checks, in the order in which they are to be repaired. It
// takes some seconds if the network does not answer.
func Examine(ctx context.Context, home config.Home) []Finding {
	p := &patient{home: home, listen: new(net.ListenConfig).Listen, roots: x509.SystemCertPool}
	if !p.settings() {
		return p.all
	}
	p.running(ctx)
	for _, check := range []func(context.Context){
		p.disk, p.files, p.authorities, p.ports, p.names, p.bootstrap, p.network, p.clock,
		p.neighbours,
	} {
		check(ctx)
	}
	return p.all
}

// settings reads the files of the home. It returns false if the other checks need them.
func (p *patient) settings() bool {
	id, err := p.home.PeerID()
	if err != nil {
		p.add("key", Fail, "restore the file from a backup, or create another home: peerd init",
			"%v", err)
		return false
	}
	if p.conf, err = p.home.Load(); err != nil {
		p.add("settings", Fail, "correct the file", "%v", err)
		return false
	}
	if p.profile, err = p.home.NetworkProfile(p.conf, ""); err != nil {
		p.add("profile", Fail, "correct the file, or join the network again", "%v", err)
		return false
	}
	m, err := p.home.Membership()
	if err == nil {
		err = p.profile.AdmissionRules().Check(id, m)
	}
	if err != nil {
		p.add("membership", Fail, "ask a member for an invitation, then: peerd join LINE", "%v",
			err)
	} else {
		p.add("membership", OK, "", "peer %s belongs to %s", id, p.profile.NetworkID())
	}
	if p.conf.Contact == "" {
		p.add("contact", Warn, "set contact in "+p.home.ConfigFile(),
			"owners of web sites cannot find out who crawls them")
	}
	return true
}

// running asks the peer.
func (p *patient) running(ctx context.Context) {
	client, err := admin.Dial(p.home.APIFile())
	if err == nil {
		var s admin.Status
		if s, err = client.Status(ctx); err == nil {
			p.status = &s
			p.peers, err = client.Peers(ctx)
		}
	}
	switch {
	case errors.Is(err, admin.ErrNotRunning):
		p.add("peer", Warn, "peerd run", "it does not run, so some checks are left out")
	case err != nil:
		p.add("peer", Fail, "restart it", "it does not answer: %v", err)
	case p.status.Health.Do != "":
		p.add("peer", Warn, p.status.Health.Do, "%s: %s", p.status.Health.State,
			p.status.Health.Why)
	default:
		p.add("peer", OK, "", "%s: %s", p.status.Health.State, p.status.Health.Why)
	}
}

func (p *patient) disk(context.Context) {
	f, err := os.CreateTemp(p.home.Dir, ".doctor-*")
	if err != nil {
		p.add("disk", Fail, "make the home writable", "%v", err)
		return
	}
	_ = os.Remove(f.Name())
	_ = f.Close()
	free, err := warc.FreeDisk(p.home.Dir)
	least := int64(p.conf.Crawl.MinFree)
	switch {
	case err != nil:
		p.add("disk", Warn, "", "free space is unknown: %v", err)
	case free < least:
		p.add("disk", Fail, "free some space; nothing is fetched below crawl.min_free",
			"%d MB are free, at least %d are needed", free/1e6, least/1e6)
	case free < 4*least:
		p.add("disk", Warn, "free some space", "only %d MB are free", free/1e6)
	default:
		p.add("disk", OK, "", "%d MB are free", free/1e6)
	}
}

func (p *patient) files(context.Context) {
	n := config.OpenFiles()
	if n < minFiles {
		p.add("open files", Warn,
			"raise the limit: ulimit -n 8192, or LimitNOFILE in a unit of systemd",
			"at most %d files may be open here, want %d", n, minFiles)
		return
	}
	p.add("open files", OK, "", "%d may be open", n)
}

// authorities checks that the certificates of web sites can be verified.
func (p *patient) authorities(context.Context) {
	pool, err := p.roots()
	switch {
	case p.conf.Crawl.AcceptInvalidTLS || len(p.conf.Crawl.CAFiles) > 0:
	case err != nil || pool.Equal(x509.NewCertPool()):
		p.add("authorities", Fail, "install the package ca-certificates; in a container, mount "+
			"/etc/ssl/certs of the host; or set crawl.ca_files",
			"this machine knows no certificate authority, so sites with https cannot be fetched")
	default:
		p.add("authorities", OK, "", "the machine knows certificate authorities")
	}
}

// ports checks that the addresses of listen are free, if the peer does not run.
func (p *patient) ports(ctx context.Context) {
	if p.status != nil {
		p.add("ports", OK, "", "the peer listens on %s", strings.Join(p.status.Addrs, " "))
		return
	}
	taken := 0
	for _, text := range p.conf.Listen {
		a, err := ma.NewMultiaddr(text)
		if err != nil {
			continue // Load has checked it
		}
		network, addr, err := manet.DialArgs(a)
		if err != nil || !strings.HasPrefix(network, "tcp") {
			continue
		}
		ln, err := p.listen(ctx, network, addr)
		if err != nil && strings.HasPrefix(text, "/ip6/::/") && !p.hasIPv6(ctx) {
			continue // the peer does without it, too
		}
		if err != nil {
			taken++
			p.add("ports", Fail, "end the program that uses the port, or change listen", "%v", err)
			continue
		}
		_ = ln.Close()
	}
	if taken == 0 {
		p.add("ports", OK, "", "all TCP ports in listen are free")
	}
}

// hasIPv6 reports whether a program can listen on IPv6 here.
func (p *patient) hasIPv6(ctx context.Context) bool {
	ln, err := p.listen(ctx, "tcp6", "[::]:0")
	if err != nil {
		return false
	}
	_ = ln.Close()
	return true
}

// names looks up the host of a seed, or else a name that always exists.
func (p *patient) names(ctx context.Context) {
	host := "example.com" // RFC 2606
	for _, s := range p.profile.Seeds {
		if u, err := url.Parse(s); err == nil && net.ParseIP(u.Hostname()) == nil {
			host = u.Hostname()
			break
		}
	}
	if len(p.conf.Crawl.Resolve[host]) > 0 {
		p.add("names", OK, "", "%s is in crawl.resolve", host)
		return
	}
	servers, err := resolve.ParseServers(p.conf.Crawl.Resolver)
	if err != nil {
		p.add("names", Fail, "correct crawl.resolver", "%v", err)
		return
	}
	client := resolve.NewClient(resolve.ClientConfig{Servers: servers, Rate: p.conf.Crawl.DNSRate})
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	begin := time.Now()
	if _, err := client.Lookup(ctx, host); err != nil {
		p.add("names", Fail, "check the network and the name servers, or set crawl.resolver",
			"look up %s: %v", host, err)
		return
	}
	p.add("names", OK, "", "%s was looked up in %s", host,
		time.Since(begin).Round(time.Millisecond))
}

// bootstrap connects to the addresses to join through, or reports how the peer did.
func (p *patient) bootstrap(ctx context.Context) {
	const do = "ask another member whether the address is right and its peer runs"
	if p.status != nil {
		for _, b := range p.status.Bootstrap {
			switch {
			case b.Connected:
				p.add("bootstrap", OK, "", "%s is connected", b.Addr)
			case b.LastError != "":
				p.add("bootstrap", Warn, do, "%s: %s", b.Addr, b.LastError)
			}
		}
		return
	}
	infos, err := config.BootstrapPeers(p.conf, p.profile)
	if err != nil {
		p.add("bootstrap", Fail, "correct the address", "%v", err)
		return
	}
	for _, info := range infos {
		for _, a := range info.Addrs {
			network, addr, err := manet.DialArgs(a)
			if err != nil || !strings.HasPrefix(network, "tcp") {
				continue
			}
			p.connect(ctx, info, a, network, addr, do)
		}
	}
}

func (p *patient) connect(
	ctx context.Context, info peer.AddrInfo, a ma.Multiaddr, network, addr, do string,
) {
	d := net.Dialer{Timeout: dialTimeout}
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		p.add("bootstrap", Warn, do, "%s/p2p/%s: %v", a, info.ID, err)
		return
	}
	_ = c.Close()
	p.add("bootstrap", OK, "", "%s answers", a)
}

// network compares the rules of the running peer with those in the home.
func (p *patient) network(context.Context) {
	if p.status == nil {
		return
	}
	if want := p.profile.NetworkID(); p.status.Network != want {
		p.add("profile", Warn, "restart the peer",
			"the peer runs in %s, but the rules in its home are those of %s",
			p.status.Network, want)
		return
	}
	if len(p.peers) > 0 {
		p.add("profile", OK, "", "%d other peers have the same rules", len(p.peers))
	}
}

// clock judges the clock of this machine.
func (p *patient) clock(context.Context) {
	if p.status == nil || p.status.Clock == nil {
		return
	}
	switch c := *p.status.Clock; {
	case c.Wrong:
		p.add("clock", Fail, admin.SetClock, "it is %s, which refuse what this peer announces", c)
	case math.Abs(c.AheadS) > maxSkew.Seconds():
		p.add("clock", Warn, admin.SetClock, "it is %s", c)
	default:
		p.add("clock", OK, "", "it agrees with those of other peers (%d)", c.Peers)
	}
}

// neighbours reports the time to the nearest peers.
func (p *patient) neighbours(context.Context) {
	if p.status == nil {
		return
	}
	var rtts []float64
	for _, q := range p.peers {
		if q.RTTMs > 0 {
			rtts = append(rtts, q.RTTMs)
		}
	}
	if len(rtts) == 0 {
		if len(p.peers) > 0 {
			p.add("neighbours", Warn, "wait a minute, then check the ports of listen",
				"no other peer has been measured yet")
		}
		return
	}
	slices.Sort(rtts)
	p.add("neighbours", OK, "", "%d measured, the nearest at %.1f ms, half within %.1f ms",
		len(rtts), rtts[0], rtts[len(rtts)/2])
}
