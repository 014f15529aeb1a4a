package emulate

import (
	"math"
	"net/netip"
	"time"

	"peerd/lab/emulate/web"
)

// Download is one page fetched by a peer.
type Download struct {
	Peer       int    // number of the peer that fetched it
	URL        string // canonical
	Bytes      int64
	Took       time.Duration // connect, unless Reused, to last byte
	Reused     bool          // on an existing connection
	Estimation bool          // fetched for an estimation, not by the owner for itself
}

// Subnet is the final assignment of one subnet.
type Subnet struct {
	Prefix      netip.Prefix
	Hosts       []string // hosts with this home subnet
	Owner       int      // number of the peer; negative is none
	Estimations int      // fetches for the decision
}

// Input is the data from which a Report is computed.
type Input struct {
	Strategy     string
	Seed         uint64
	Peers        int
	Audit        web.Audit
	Downloads    []Download // of pages
	Subnets      []Subnet
	Exchanged    int64 // URLs sent between peers
	ControlBytes int64 // bytes sent between peers, without pages
	// Probes counts the measurements of any kind, by any peer, before the decisions.
	Probes int64
	Wall   time.Duration
	// PageTime is the oracle: it returns how long peer would take for url. It is
	// required if there are Downloads. See web.Web.PageTime, which takes places.
	PageTime func(peer int, url string, reused bool) time.Duration
}

// Report has the measures of a crawl. Shares are 0…1, times are in milliseconds.
type Report struct {
	Strategy string `json:"strategy"`
	Seed     uint64 `json:"seed"`
	Peers    int    `json:"peers"`
	Sites    int    `json:"sites"`

	PagesExpected int `json:"pages_expected"`
	PagesFetched  int `json:"pages_fetched"` // distinct pages
	// Coverage is c/u: the share of existing pages that were fetched ([M] 2.2).
	Coverage float64 `json:"coverage"`
	// Overlap is (n−u)/u with n page fetches, as counted by the sites, of u distinct
	// pages: 0 if none was fetched twice ([M] 2.2).
	Overlap float64 `json:"overlap"`
	// Balance is the standard deviation of hosts per peer divided by the mean. [M] 2.2
	// requires about as many hosts at each peer; 5.4.2 uses the standard deviation,
	// as there is no common measure. 0 is perfect balance; with all hosts at one of n
	// peers it is √(n−1).
	Balance float64 `json:"balance"`

	Download Times `json:"download_ms"` // all pages
	Assigned Times `json:"assigned_ms"` // without estimations
	Oracle   Times `json:"oracle_ms"`   // all pages, each fetched by its fastest peer
	Random   Times `json:"random_ms"`   // all pages, each fetched by a random peer

	// OptimalShare is the share of subnets owned by the peer that is fastest for
	// their pages. NearOptimalShare is the share of subnets with an owner that takes
	// at most a tenth longer.
	OptimalShare     float64 `json:"optimal_share"`
	NearOptimalShare float64 `json:"near_optimal_share"`

	// EstimationsPerSubnet counts pages that other peers fetched for the owner's
	// decision. ProbesPerSubnet counts all measurements before it: pages and bare
	// connections, by others and by the owner, and the owner's first robots.txt, which
	// costs nothing extra.
	EstimationsPerSubnet float64 `json:"estimations_per_subnet"`
	ProbesPerSubnet      float64 `json:"probes_per_subnet"`
	// ExtraRequests counts connections without a request at the sites: the cost of
	// measuring, and of choosing the home of a host with addresses in several subnets,
	// beyond the pages that had to be fetched anyway.
	ExtraRequests int `json:"extra_requests"`
	// URLsExchangedPerPage is l/c, the communication overhead of [M] 2.2.
	URLsExchangedPerPage float64 `json:"urls_exchanged_per_page"`
	ControlBytesPerPage  float64 `json:"control_bytes_per_page"`

	PolitenessViolations int `json:"politeness_violations"`
	// TooEarly describes the first of them.
	TooEarly         []string `json:"too_early,omitempty"`
	RobotsViolations int      `json:"robots_violations"`
	// Unlogged counts the requests that the sites failed to log. No figure includes them.
	Unlogged    int     `json:"unlogged"`
	WallSeconds float64 `json:"wall_s"`

	// Subnets has the outcome of each subnet with an owner and pages.
	Subnets []Outcome `json:"subnets"`
}

// Evaluate computes the report of a crawl.
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
		TooEarly:             a.TooEarly,
		RobotsViolations:     a.RobotsViolations,
		Unlogged:             a.Lost,
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

// balance returns the coefficient of variation of hosts per peer.
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

// ratio returns a/b rounded to six decimals, 0 if b is 0.
func ratio[N int | int64](a, b N) float64 {
	if b == 0 {
		return 0
	}
	return round(float64(a)/float64(b), 1e6)
}

// round rounds x to a multiple of 1/unit.
func round(x, unit float64) float64 { return math.Round(x*unit) / unit }
