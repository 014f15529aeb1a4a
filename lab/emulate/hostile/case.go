package hostile

import (
	"net/netip"
	"slices"
	"time"
)

// A Case is one kind of attack and the behaviour expected of a good crawler.
type Case struct {
	Name  string
	About string // one line
	// Hosts are the names that the case serves; "*.x" matches all names below x.
	// Paths in Bound belong to the first.
	Hosts []string
	// Seeds are start pages in the form host/path.
	Seeds []string
	Bound Bound
	// Waits means that the server requests a delay so long that a good crawler still
	// waits when the test ends.
	Waits bool
	// Slow means that only a timeout ends the answer.
	Slow bool

	serve func(*exchange)
	// names returns the addresses of a host; nth is the number of earlier lookups of
	// it. A nil function or result means the address of the case.
	names func(w *Web, host string, nth int) []netip.Addr
	// extra are other loopback addresses that must not be dialled.
	extra []netip.Addr

	addr   netip.Addr // of the hosts
	forbid netip.Addr // the address that the case lures to, which must not be dialled
}

// tries is how often a good crawler may request a URL that fails each time. The tests scale the
// back-off down much more than the patience.
const tries = 40

// Bound limits the behaviour of a good crawler. Patterns are host/path?query, or
// /path?query at the first host of the case; "*" matches any text.
type Bound struct {
	Requests int      // maximum, including robots.txt
	Sent     int64    // maximum of bytes that the server could send, if not 0
	Repeat   int      // maximum of requests for one URL; 0 means 1
	Lookups  int      // maximum of names that are looked up, if not 0
	Want     []string // each must be requested
	Never    []string // none may be requested
	// Pause is the minimum time from the end of an answer 429 or 503 to the next
	// request of the same host.
	Pause time.Duration
}

// Domain is the top-level domain of all hosts. Each case has a domain of its own below
// it. It is reserved for tests (RFC 6761, section 6.2).
const Domain = "test"

// Portal is the host of the index.
const Portal = "hostile." + Domain

// Cases returns all cases, in a fixed order.
func Cases() []Case {
	all := slices.Concat(
		redirectCases(), trapCases(), headCases(), bodyCases(), bombCases(), framingCases(),
		robotsCases(), throttleCases(), textCases(), addressCases(),
	)
	for i := range all {
		c := &all[i]
		if c.Hosts == nil {
			c.Hosts = []string{c.Name + "." + Domain}
		}
		if c.Seeds == nil {
			c.Seeds = []string{c.Hosts[0] + "/"}
		}
		c.Bound.Repeat = max(c.Bound.Repeat, 1)
		c.addr = netip.AddrFrom4([4]byte{127, 66, byte(i), 10})
		c.forbid = netip.AddrFrom4([4]byte{127, 67, byte(i), 9})
	}
	return all
}
