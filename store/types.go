package store

import (
	"net/netip"
	"time"
)

// Host is a web host that this peer crawls because it owns the host's home subnet.
type Host struct {
	Name   string       `cbor:"1,keyasint"`
	Subnet netip.Prefix `cbor:"2,keyasint"`           // home subnet
	Addr   netip.Addr   `cbor:"3,keyasint"`           // address to dial, within Subnet
	Queued int64        `cbor:"4,keyasint,omitempty"` // entries in the queue
	// Known is the number of URLs ever accepted. It limits the pages of one host.
	Known int64 `cbor:"5,keyasint,omitempty"`
	// NextAt is the earliest time of the next request. It is stored for delays that
	// must survive a restart; package crawl/frontier keeps the shorter ones in memory.
	NextAt time.Time `cbor:"6,keyasint"`
	// Day is the day, as DayOf counts, of the last request, and DayCount the number of
	// requests on that day.
	Day      int64 `cbor:"7,keyasint,omitempty"`
	DayCount int64 `cbor:"8,keyasint,omitempty"`
	// DueAt is the time of the first visit that is due; zero means that none is planned.
	DueAt time.Time `cbor:"9,keyasint"`
	// Assigned reports whether another peer assigned the host to this one as the nearest.
	Assigned bool `cbor:"10,keyasint,omitempty"`
	// SubnetSeq numbers the events of hosts joining subnets, in the same sequence as
	// the entries of queues: of two records of a host in different subnets, the one with
	// the greater SubnetSeq is later. The store sets it after the first call of StartLog.
	SubnetSeq uint64 `cbor:"11,keyasint,omitempty"`
	// Health says whether the host answers.
	Health Health `cbor:"12,keyasint,omitzero"`
}

// Health is what the owner of a host knows about whether the host answers. Package crawl
// defines the transitions. The zero value is that of a host that answers.
type Health struct {
	State    HostState `cbor:"1,keyasint,omitempty"`
	Since    time.Time `cbor:"2,keyasint,omitzero"`  // first failure since the last answer
	Failures int       `cbor:"3,keyasint,omitempty"` // consecutive failed requests
	NextTry  time.Time `cbor:"4,keyasint,omitzero"`  // no request before, because of failures
	Outcome  Outcome   `cbor:"5,keyasint,omitempty"` // of the last failure
	Error    string    `cbor:"6,keyasint,omitempty"` // of the last failure; see ErrorText
	Status   int       `cbor:"7,keyasint,omitempty"` // HTTP status of the last failure, if any
}

// AsksToWait reports whether the host has answered that it is not available, and its wait is not
// over: no connection should be opened until NextTry.
func (h *Health) AsksToWait(now time.Time) bool {
	return h.State == HostThrottled && h.NextTry.After(now)
}

// maxNextTry is the longest time for which a host is left alone because of failures, with
// jitter.
const maxNextTry = 24 * time.Hour

// Limit corrects what no correct owner stores.
func (h *Health) Limit(now time.Time) {
	if h.State >= hostStateCount {
		*h = Health{}
	}
	h.Failures, h.Error = max(h.Failures, 0), CutErrorText(h.Error)
	if h.Since.After(now) {
		h.Since = now
	}
	if h.NextTry.Sub(now) > maxNextTry {
		h.NextTry = now.Add(maxNextTry)
	}
}

// HostState is the state of a host. The values are stored: never renumber them.
type HostState uint8

// The states of a host.
const (
	HostAnswering HostState = iota // the last request was answered, or there was none
	HostFailing                    // the last request was not answered, or not completely
	HostThrottled                  // the last answer was 429 or 503
	HostGivenUp                    // failing or throttled for too long; its URLs were given up
	hostStateCount
)

var hostStateNames = [hostStateCount]string{"answering", "failing", "throttled", "given_up"}

// String returns the name of the state for status output.
func (s HostState) String() string {
	if s < hostStateCount {
		return hostStateNames[s]
	}
	return "unknown"
}

// DayOf returns the day (UTC) that t is in, in days since 1970.
func DayOf(t time.Time) int64 { return t.Unix() / (24 * 60 * 60) }

// Kind is a set of flags that say what a URL is fetched for. The values are stored and
// sent to other peers: never renumber them.
type Kind uint8

// The flags. Without any flag, a page is fetched for the first time.
const (
	KindPage    Kind = 0
	KindSitemap Kind = 1 // named by robots.txt, or by another sitemap
	KindRevisit Kind = 2 // fetched before
	// KindChanged marks a pending URL, or a planned visit: a peer that may speak for the site
	// says that the page has changed since it was last fetched.
	KindChanged Kind = 4
	// KindPinged marks a pending URL that is a notice of a web site: that of a page, with a
	// proof that it has changed as its fragment (crawl/ping). The page is not known to exist.
	KindPinged Kind = 8
)

// Sitemap reports whether k has the flag KindSitemap.
func (k Kind) Sitemap() bool { return k&KindSitemap != 0 }

// Revisit reports whether k has the flag KindRevisit.
func (k Kind) Revisit() bool { return k&KindRevisit != 0 }

// Changed reports whether k has the flag KindChanged.
func (k Kind) Changed() bool { return k&KindChanged != 0 }

// Pinged reports whether k has the flag KindPinged.
func (k Kind) Pinged() bool { return k&KindPinged != 0 }

// Entry is one URL in the queue of its host.
type Entry struct {
	URL   URL    `cbor:"1,keyasint"`
	Depth int    `cbor:"2,keyasint,omitempty"` // links from a seed
	Tries int    `cbor:"3,keyasint,omitempty"` // failed tries that count against the URL
	Key   []byte `cbor:"-"`                    // database key, set when read
	Kind  Kind   `cbor:"4,keyasint,omitempty"`
	Hops  int    `cbor:"5,keyasint,omitempty"` // consecutive redirects that led here
	From  string `cbor:"-"`                    // host of the linking page if another; not stored
	// First is the time of the first failed try; zero if none has failed. An entry with First
	// is queued although its URL was seen; see PushAgain.
	First  time.Time `cbor:"6,keyasint,omitzero"`
	Source Source    `cbor:"7,keyasint,omitempty"` // the page that linked to it first
	// Finder is the number of the peer that found it, below Finders; 0 is this peer. It is
	// not stored: the place in the queue tells it.
	Finder int `cbor:"-"`
	// Ahead puts it where the entries of its finder with depth 0 are. It is not stored.
	Ahead bool `cbor:"-"`
}

// Source describes the page of its own host on which a URL was found first; see package
// trap. It is zero for all other URLs, such as seeds and links of other hosts.
type Source uint8

// The flags.
const (
	SourceCopy    Source = 1 // the page had no text of its own
	SourcePattern Source = 2 // the page's URL differs only in numbers and random strings
	SourcePath    Source = 4 // the page's path differs only in these, its query in anything
)

// Has reports whether s has the flag f.
func (s Source) Has(f Source) bool { return s&f != 0 }

// Visit is what the owner of a host stores to fetch one of its pages again. The page
// itself may be stored at another peer, which fetched it.
type Visit struct {
	URL     URL       `cbor:"1,keyasint"`
	Depth   int       `cbor:"2,keyasint,omitempty"`
	Due     time.Time `cbor:"3,keyasint"`
	History []byte    `cbor:"4,keyasint,omitempty"` // encoded by package crawl
	Kind    Kind      `cbor:"5,keyasint,omitempty"` // of the queue entry for the visit
	// Tries, First and Hops are those of the queue entry if the visit is another try of a
	// page that was never fetched; otherwise First is zero.
	Tries int       `cbor:"6,keyasint,omitempty"`
	First time.Time `cbor:"7,keyasint,omitzero"`
	Hops  int       `cbor:"8,keyasint,omitempty"`
	// Ahead is that of the queue entry: the page is said to have changed.
	Ahead bool `cbor:"9,keyasint,omitempty"`
}

// Pending is a pending URL: this peer does not own its host, or does not know yet that
// it does.
type Pending struct {
	URL   URL        `cbor:"1,keyasint"`
	Depth int        `cbor:"2,keyasint,omitempty"`
	Found time.Time  `cbor:"3,keyasint"`
	Hint  netip.Addr `cbor:"4,keyasint,omitempty"` // address known to the peer that found it
	From  string     `cbor:"5,keyasint,omitempty"` // host of the linking page if another
	Kind  Kind       `cbor:"6,keyasint,omitempty"`
	Hops  int        `cbor:"7,keyasint,omitempty"` // consecutive redirects that led here
	// Source is that of the queue entry. It is not stored.
	Source Source `cbor:"-"`
	// FromSubnet is the home subnet of From: the URL is an out-link of that subnet.
	// AddPending sets it after the first call of StartLog.
	FromSubnet netip.Prefix `cbor:"8,keyasint,omitzero"`
	// Finder is that of the queue entry.
	Finder int `cbor:"9,keyasint,omitempty"`
}

// Page is the record of one fetch by this peer.
type Page struct {
	URL         URL       `cbor:"1,keyasint"`
	Outcome     Outcome   `cbor:"2,keyasint"`
	Status      int       `cbor:"3,keyasint,omitempty"`
	Bytes       int64     `cbor:"4,keyasint,omitempty"`
	ContentType string    `cbor:"5,keyasint,omitempty"`
	FetchedAt   time.Time `cbor:"6,keyasint"`
	Timing      Timing    `cbor:"7,keyasint"`
	Depth       int       `cbor:"8,keyasint,omitempty"`
	Estimation  bool      `cbor:"9,keyasint,omitempty"` // fetched at another owner's request
	Title       string    `cbor:"10,keyasint,omitempty"`
	Links       []URL     `cbor:"11,keyasint,omitempty"` // distinct links in scope, in order
	// Digest and Fingerprint describe the content: equal digests mean equal bodies, near
	// fingerprints (see crawl/similar) similar texts. Zero means not computed.
	Digest      Digest `cbor:"12,keyasint,omitempty"`
	Fingerprint uint64 `cbor:"13,keyasint,omitempty"`
	// Archive is the place of the response in this peer's archive; zero if it is not there.
	Archive Location `cbor:"14,keyasint,omitempty"`
	// Flags are statements of the page about itself, and findings about it.
	Flags PageFlags `cbor:"15,keyasint,omitempty"`
	// Proto is the protocol of the response, such as "http/1.1" or "h2". TLS is the TLS
	// version, such as "TLS 1.3"; it is "" for http.
	Proto string `cbor:"16,keyasint,omitempty"`
	TLS   string `cbor:"17,keyasint,omitempty"`
	// Error is the error of a fetch without a complete answer, in words; see ErrorText.
	Error string `cbor:"18,keyasint,omitempty"`
	// Check says that another peer had reported the page, and this one fetched it to compare. It
	// is not stored.
	Check bool `cbor:"-"`
}

// Location is a place in an archive of WARC files.
type Location struct {
	File   string `cbor:"1,keyasint,omitempty"`
	Offset int64  `cbor:"2,keyasint,omitempty"`
	Length int64  `cbor:"3,keyasint,omitempty"`
}

// PageFlags is a set of flags. The values are stored: never renumber them.
type PageFlags uint16

// The flags of a page.
const (
	PageNoIndex      PageFlags = 1 << iota // forbids indexing
	PageNoFollow                           // forbids following its links
	PageNoArchive                          // forbids keeping a copy
	PageDuplicate                          // has the body of another page of its host
	_                                      // no longer used
	_                                      // no longer used
	PageNotCanonical                       // names another URL as its canonical one
)

// Phase is the state of a subnet's ownership at this peer.
type Phase uint8

// The phases of a subnet. The values are stored: never renumber them.
const (
	PhaseNone       Phase = iota
	PhaseDeciding         // claimed; the strategy still searches for the nearest peer
	PhaseOwned            // owned by this peer
	PhaseCommitting       // given up: the grant is signed, its acceptance not yet confirmed
	PhaseStaged           // received from the previous owner, not yet owned
	PhaseReplica          // copy of a subnet of another peer
)

// String returns the name of the phase for status output.
func (p Phase) String() string {
	switch p {
	case PhaseDeciding:
		return "estimating"
	case PhaseOwned:
		return "owned"
	case PhaseCommitting:
		return "leaving"
	case PhaseStaged:
		return "staged"
	case PhaseReplica:
		return "replica"
	}
	return "none"
}

// Subnet is the durable state of one subnet at a peer. Lease, Grant and Evidence are
// signed records and samples, encoded by package overlay.
type Subnet struct {
	Prefix    netip.Prefix `cbor:"1,keyasint"`
	Phase     Phase        `cbor:"2,keyasint"`
	Lease     []byte       `cbor:"3,keyasint,omitempty"`
	Epoch     uint64       `cbor:"4,keyasint"`
	Since     time.Time    `cbor:"5,keyasint"`
	Evidence  []byte       `cbor:"6,keyasint,omitempty"`
	Grant     []byte       `cbor:"7,keyasint,omitempty"`
	Successor string       `cbor:"8,keyasint,omitempty"` // receiver of the grant
	// Estimations is the number of fetches by other peers before the decision.
	Estimations int `cbor:"9,keyasint,omitempty"`
	// Estimator is the peer that is fetching as an estimation for this peer.
	Estimator string `cbor:"10,keyasint,omitempty"`
	// Log and Seq are a position in the change log of the subnet. A replica has applied
	// the log up to it. An owner stores the log that it started; its Seq is not updated.
	Log uint64 `cbor:"11,keyasint,omitempty"`
	Seq uint64 `cbor:"12,keyasint,omitempty"`
	// Cursor is the cursor of the next snapshot piece that a replica needs (Tx.Snapshot):
	// nil after the last piece, empty before the first.
	Cursor []byte `cbor:"13,keyasint"`
	// Owner is the owner of the subnet that a replica copies.
	Owner string `cbor:"14,keyasint,omitempty"`
}

// FetchRequest asks for one URL to be fetched now, by a worker of this peer or, as an
// estimation, by another peer. The sender has checked the scope and robots.txt, and
// sends no other request to the host meanwhile.
type FetchRequest struct {
	URL   URL        `cbor:"1,keyasint"`
	Addr  netip.Addr `cbor:"2,keyasint"` // the only address to dial
	Depth int        `cbor:"3,keyasint,omitempty"`
	Kind  Kind       `cbor:"4,keyasint,omitempty"`
	// IfNoneMatch and IfModifiedSince make a revisit conditional (RFC 9110,
	// section 13.1).
	IfNoneMatch     string `cbor:"5,keyasint,omitempty"`
	IfModifiedSince string `cbor:"6,keyasint,omitempty"`
	Hops            int    `cbor:"7,keyasint,omitempty"` // consecutive redirects that led here
	// CompareText says that the text of the page is compared with that of other pages. The
	// owner sets it for its own fetches; others always compare.
	CompareText bool `cbor:"-"`
	// File asks a peer on the machine of the site for the page in a file. No request is sent for
	// it.
	File bool `cbor:"8,keyasint,omitempty"`
}

// FetchReport is the result of a FetchRequest.
type FetchReport struct {
	Outcome    Outcome       `cbor:"1,keyasint"`
	Status     int           `cbor:"2,keyasint,omitempty"`
	Bytes      int64         `cbor:"3,keyasint,omitempty"`
	Timing     Timing        `cbor:"4,keyasint"`
	RetryAfter time.Duration `cbor:"5,keyasint,omitempty"`
	// Links are the distinct links in scope, in order, to any host; after a redirect, only
	// its target. The fetching peer stores them with the page but does not route them, so
	// the peer that asked has to.
	Links []URL `cbor:"6,keyasint,omitempty"`
	// Content tells the owner, which does not have the body, what it needs to know of it.
	Content Content `cbor:"7,keyasint,omitempty"`
	// Error is the error of a fetch without a complete answer, in words; see ErrorText.
	Error string `cbor:"8,keyasint,omitempty"`
	// File says that a file such as robots.txt was fetched, and no page.
	File bool `cbor:"-"`
}

// Measured returns what the report shows of the way to the server. Servers often send a file, a
// redirect or an error sooner than a page. So of these only the time of a new connection can be
// compared with pages: the other times and the size are zero. Over an old connection, those of a
// file are zero, too, and a redirect or an error is returned as it is.
func (r FetchReport) Measured() FetchReport {
	switch r.Outcome {
	case OutcomeOK, OutcomeTooLarge, OutcomeNotHTML, OutcomeNotModified:
		if !r.File {
			return r
		}
	}
	if r.Outcome.Answered() && (r.File || r.Timing.Connect > 0) {
		r.Timing.FirstByte, r.Timing.Body, r.Bytes = 0, 0, 0
	}
	return r
}

// Content describes the body of a response.
type Content struct {
	Digest       Digest    `cbor:"1,keyasint,omitempty"`
	Fingerprint  uint64    `cbor:"2,keyasint,omitempty"`
	ETag         string    `cbor:"3,keyasint,omitempty"`
	LastModified string    `cbor:"4,keyasint,omitempty"`
	Flags        PageFlags `cbor:"5,keyasint,omitempty"`
}

// Counters are the totals that a peer reports. They survive restarts.
type Counters struct {
	Pages int64 `cbor:"1,keyasint,omitempty"` // 2xx with a body, fetched here
	Bytes int64 `cbor:"2,keyasint,omitempty"`
	// Failed and RobotsDenied count the URLs that were given up, without those that were retried
	// since. A peer that retries URLs that another peer gave up can have less than none.
	Failed               int64 `cbor:"3,keyasint,omitempty"`
	RobotsDenied         int64 `cbor:"4,keyasint,omitempty"`
	Seen                 int64 `cbor:"5,keyasint,omitempty"` // URLs ever accepted into a queue
	Fetches              int64 `cbor:"6,keyasint,omitempty"` // responses of any status
	Dropped              int64 `cbor:"7,keyasint,omitempty"` // URLs beyond a profile's limit
	HandoversOut         int64 `cbor:"8,keyasint,omitempty"`
	HandoversIn          int64 `cbor:"9,keyasint,omitempty"`
	EstimationsRequested int64 `cbor:"10,keyasint,omitempty"`
	EstimationsServed    int64 `cbor:"11,keyasint,omitempty"`
	BatchesSent          int64 `cbor:"12,keyasint,omitempty"`
	BatchesReceived      int64 `cbor:"13,keyasint,omitempty"`
	URLsSent             int64 `cbor:"14,keyasint,omitempty"`
	URLsReceived         int64 `cbor:"15,keyasint,omitempty"`
	Revisits             int64 `cbor:"16,keyasint,omitempty"` // responses to revisits
	NotModified          int64 `cbor:"17,keyasint,omitempty"` // revisits with status 304
	Changed              int64 `cbor:"18,keyasint,omitempty"` // revisits that found a change
	// Probes counts the measurements of all peers that strategies used to decide about
	// subnets of this peer. Connects counts the connections without a request that this
	// peer opened to web servers, for itself or for other peers.
	Probes   int64 `cbor:"19,keyasint,omitempty"`
	Connects int64 `cbor:"20,keyasint,omitempty"`
}
