package emulate

import (
	"math"
	"net/netip"
	"time"

	"peerd/node/emulate/web"
)

// Download is one page taken by a peer.
type Download struct {
	Peer       int    // number of the peer that fetched it
	URL        string // canonical
	Bytes      int64
	Took       time.Duration // connect, unless Reused, to last byte
	Reused     bool          // on a connection that was open
	Estimation bool          // to find out who is near, not by the final owner
}

// Subnet is where the hosts of one subnet ended.
type Subnet struct {
	Prefix      netip.Prefix
	Hosts       []string // whose home it is
	Owner       int      // number of the peer; negative: nobody
	Estimations int      // fetches that were made to decide
}

// Input is everything that a Report is computed from.
type Input struct {
	Strategy     string
	Seed         uint64
	Peers        int
	Audit        web.Audit
	Downloads    []Download // of pages
	Subnets      []Subnet
	Exchanged    int64 // URLs sent from peer to peer
	ControlBytes int64 // sent from peer to peer, everything but pages
	Probes       int64 // measurements that the strategy had before it decided, of any kind, by any peer
	Wall         time.Duration
	// PageTime is the oracle: how long peer would take for url. Required if
	// there are Downloads. See web.Web.PageTime, which takes places.
	PageTime func(peer int, url string, reused bool) time.Duration
}

// Report is what a crawl came to. Shares are 0…1, times milliseconds.
type Report struct {
	Strategy string `json:"strategy"`
	Seed     uint64 `json:"seed"`
	Peers    int    `json:"peers"`
	Sites    int    `json:"sites"`

	PagesExpected int `json:"pages_expected"`
	PagesFetched  int `json:"pages_fetched"` // different ones
	// Coverage is c/u: pages fetched of pages there are ([M] 2.2).
	Coverage float64 `json:"coverage"`
	// Overlap is (n−u)/u, n the fetches of pages that the sites counted, u the
	// different pages among them: 0 if none was fetched twice ([M] 2.2).
	Overlap float64 `json:"overlap"`
	// Balance is the standard deviation of hosts per peer over their mean. [M]
	// 2.2 asks for about as many hosts at each peer, and 5.4.2 looks at the
	// standard deviation for want of a common figure. 0 is perfect balance;
	// with everything at one of n peers it is √(n−1).
	Balance float64 `json:"balance"`

	Download Times `json:"download_ms"` // all pages
	Assigned Times `json:"assigned_ms"` // without estimations
	Oracle   Times `json:"oracle_ms"`   // all pages, each by its fastest peer
	Random   Times `json:"random_ms"`   // all pages, each by every peer with equal chance

	// OptimalShare is the share of subnets whose owner is the truly fastest
	// peer for their pages, NearOptimalShare of those whose owner takes at most
	// a tenth longer than that.
	OptimalShare     float64 `json:"optimal_share"`
	NearOptimalShare float64 `json:"near_optimal_share"`

	// EstimationsPerSubnet counts pages that other peers fetched so that the
	// owner could decide; ProbesPerSubnet all measurements that the strategy
	// had by then: pages and bare connections, by others and by the owner itself,
	// and the owner's first robots.txt there, which came for nothing.
	EstimationsPerSubnet float64 `json:"estimations_per_subnet"`
	ProbesPerSubnet      float64 `json:"probes_per_subnet"`
	// ExtraRequests are the connections without a request that the sites saw:
	// what measuring cost them beyond the pages that had to be fetched.
	ExtraRequests int `json:"extra_requests"`
	// URLsExchangedPerPage is l/c, the communication overhead of [M] 2.2.
	URLsExchangedPerPage float64 `json:"urls_exchanged_per_page"`
	ControlBytesPerPage  float64 `json:"control_bytes_per_page"`

	PolitenessViolations int     `json:"politeness_violations"`
	RobotsViolations     int     `json:"robots_violations"`
	WallSeconds          float64 `json:"wall_s"`

	// Subnets tells of each subnet where it ended.
	Subnets []Outcome `json:"subnets"`
}

// Evaluate computes the report of a crawl. It is pure.
func Evaluate(in Input) Report {
	a := in.Audit
	r := Report{
		Strategy: in.Strategy, Seed: in.Seed, Peers: in.Peers, Sites: a.Sites,
		PagesExpected: a.PagesExpected, PagesFetched: a.PagesFetched,
		Coverage:             ratio(a.PagesFetched, a.PagesExpected),
		Overlap:              ratio(a.Fetches-a.PagesFetched, a.PagesFetched),
		Balance:              balance(in.Peers, in.Subnets),
		URLsExchangedPerPage: ratio(in.Exchanged, int64(a.PagesFetched)),
		ControlBytesPerPage:  ratio(in.ControlBytes, int64(a.PagesFetched)),
		PolitenessViolations: a.Politeness.Violations,
		RobotsViolations:     a.RobotsViolations,
		ProbesPerSubnet:      ratio(in.Probes, int64(len(in.Subnets))),
		ExtraRequests:        a.BareConnections,
		WallSeconds:          round(in.Wall.Seconds(), 1e3),
	}
	estimations := 0
	for _, s := range in.Subnets {
		estimations += s.Estimations
	}
	r.EstimationsPerSubnet = ratio(estimations, len(in.Subnets))
	r.Download, r.Assigned = measured(in.Downloads)
	r.Oracle, r.Random = ideal(in)
	r.Subnets = assigned(in)
	r.OptimalShare, r.NearOptimalShare = ownership(r.Subnets, len(in.Subnets))
	return r
}

// balance is the coefficient of variation of hosts per peer.
func balance(peers int, subnets []Subnet) float64 {
	hosts, total := make([]int, peers), 0
	for _, s := range subnets {
		if s.Owner >= 0 && s.Owner < peers {
			hosts[s.Owner] += len(s.Hosts)
			total += len(s.Hosts)
		}
	}
	if total == 0 {
		return 0
	}
	mean, sum := float64(total)/float64(peers), 0.0
	for _, n := range hosts {
		sum += (float64(n) - mean) * (float64(n) - mean)
	}
	return round(math.Sqrt(sum/float64(peers))/mean, 1e4)
}

// ratio is a/b to six digits, 0 if b is 0.
func ratio[N int | int64](a, b N) float64 {
	if b == 0 {
		return 0
	}
	return round(float64(a)/float64(b), 1e6)
}

// round keeps as many digits as unit has zeros.
func round(x, unit float64) float64 { return math.Round(x*unit) / unit }
