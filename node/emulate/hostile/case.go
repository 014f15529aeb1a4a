package hostile

import (
	"net/netip"
	"slices"
	"time"
)

// A Case is one way to be hostile, and what a good crawler makes of it.
type Case struct {
	Name  string
	About string // one line
	// Hosts are the names that the case serves; "*.x" stands for all names
	// below x. The first is the one that paths in Bound belong to.
	Hosts []string
	// Seeds are host/path, to be crawled with all that is linked from there.
	Seeds []string
	Bound Bound
	// Waits: the server asks for so long a pause that a good crawler is still
	// waiting when the test ends.
	Waits bool
	// Slow: nothing but a time-out ends the answer.
	Slow bool

	serve func(*exchange)
	// names answers for hosts whose address is not simply that of the case;
	// nth counts the questions for this host from 0. Nil, or nil returned,
	// means the address of the case.
	names func(w *Web, host string, nth int) []netip.Addr
	// extra are other loopback addresses that nobody may connect to.
	extra []netip.Addr

	addr   netip.Addr // of the hosts
	forbid netip.Addr // not to be dialled: where the case lures to
}

// Bound is what a good crawler keeps to. Patterns are host/path?query, or
// /path?query at the first host of the case; "*" stands for any text.
type Bound struct {
	Requests int      // at most, robots.txt included
	Sent     int64    // bytes at most, if not 0: what the server could send in all
	Repeat   int      // requests at most for one URL; 0 means 1
	Lookups  int      // names at most that are asked for, if not 0
	Want     []string // each must be requested
	Never    []string // none must be requested
	// Pause is the least time from the end of an answer 429 or 503 to the next
	// request of the same host.
	Pause time.Duration
}

// Domain is the top-level domain of all hosts, each case having a domain of its
// own below it. It can be no real one (RFC 6761, section 6.2).
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
