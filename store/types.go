package store

import (
	"net/netip"
	"time"
)

// Host is a web host that this peer crawls, because it owns the host's home
// subnet.
type Host struct {
	Name    string       `cbor:"1,keyasint"`
	Subnet  netip.Prefix `cbor:"2,keyasint"` // its home
	Addr    netip.Addr   `cbor:"3,keyasint"` // the address that is dialled, within Subnet
	Pending int64        `cbor:"4,keyasint,omitempty"`
	Known   int64        `cbor:"5,keyasint,omitempty"` // URLs ever accepted: bounds the pages of one host
	// NextAt holds the host back: no request before it. It is kept for waits that
	// must outlive a restart; the shorter ones are the frontier's.
	NextAt time.Time `cbor:"6,keyasint"`
	// Day, as DayOf counts, and DayCount say how many requests a day has seen.
	Day      int64 `cbor:"7,keyasint,omitempty"`
	DayCount int64 `cbor:"8,keyasint,omitempty"`
	// DueAt is when the first of the host's pages is to be visited again; zero
	// means never.
	DueAt time.Time `cbor:"9,keyasint"`
	// Assigned says that another peer found this one to be the nearest.
	Assigned bool `cbor:"10,keyasint,omitempty"`
	// Since numbers the host's coming into its subnet, as places in queues are
	// numbered: of two records, in different subnets, that with the greater one
	// is later. The store sets it, from the first StartTail on.
	Since uint64 `cbor:"11,keyasint,omitempty"`
}

// DayOf returns the day (UTC) that t is in, in days since 1970.
func DayOf(t time.Time) int64 { return t.Unix() / (24 * 60 * 60) }

// Kind says what a URL is fetched for: a set of marks. Stored, and handed over:
// never renumber.
type Kind uint8

// The marks; without any, a page is fetched for the first time.
const (
	KindPage    Kind = 0
	KindSitemap Kind = 1 // named by robots.txt, or by another sitemap
	KindRevisit Kind = 2 // fetched before
)

// Sitemap and Revisit say whether k has that mark.
func (k Kind) Sitemap() bool { return k&KindSitemap != 0 }
func (k Kind) Revisit() bool { return k&KindRevisit != 0 }

// Entry is one URL waiting in the queue of its host.
type Entry struct {
	URL   URL    `cbor:"1,keyasint"`
	Depth int    `cbor:"2,keyasint,omitempty"` // links from a seed
	Tries int    `cbor:"3,keyasint,omitempty"` // patience used up by failed fetches, as room crawl counts it
	Key   []byte `cbor:"-"`                    // its key, set when read
	Kind  Kind   `cbor:"4,keyasint,omitempty"`
	Hops  int    `cbor:"5,keyasint,omitempty"` // redirects in a row that led here
	From  string `cbor:"-"`                    // host of the page that links to it, if another; not kept
}

// Visit is what the owner of a host keeps of one of its pages in order to come
// back: whoever fetched it, the page itself may be at another peer.
type Visit struct {
	URL     URL       `cbor:"1,keyasint"`
	Depth   int       `cbor:"2,keyasint,omitempty"`
	Due     time.Time `cbor:"3,keyasint"`
	History []byte    `cbor:"4,keyasint,omitempty"` // as room crawl encodes it
	Kind    Kind      `cbor:"5,keyasint,omitempty"` // of the entry that it becomes
}

// Pending is one URL of a host that is not ours (or not yet known to be).
type Pending struct {
	URL   URL        `cbor:"1,keyasint"`
	Depth int        `cbor:"2,keyasint,omitempty"`
	Found time.Time  `cbor:"3,keyasint"`
	Hint  netip.Addr `cbor:"4,keyasint,omitempty"` // the finder's idea of the address, if it had one
	From  string     `cbor:"5,keyasint,omitempty"` // host of the page that links to it, if another
	Kind  Kind       `cbor:"6,keyasint,omitempty"`
	Hops  int        `cbor:"7,keyasint,omitempty"` // redirects in a row that led here
	// Home is the subnet whose out-link this is, by its From: set by Defer once
	// subnets are logged here (see StartTail).
	Home netip.Prefix `cbor:"8,keyasint,omitzero"`
}

// Page is what this peer keeps of one fetch.
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
	Links       []URL     `cbor:"11,keyasint,omitempty"` // out-links in scope, in order, each once
	// Digest and Fingerprint are of the content: equal digests are equal bodies,
	// near fingerprints (see crawl/similar) alike texts. Zero: not computed.
	Digest      Digest `cbor:"12,keyasint,omitempty"`
	Fingerprint uint64 `cbor:"13,keyasint,omitempty"`
	// Archive says where the answer is in this peer's archive; zero: nowhere.
	Archive Location `cbor:"14,keyasint,omitempty"`
	// Flags are what the page says about itself, and what was found of it.
	Flags PageFlags `cbor:"15,keyasint,omitempty"`
	// Proto is the protocol of the answer, such as "http/1.1" or "h2", and TLS
	// that of the session below it, such as "TLS 1.3"; "" without one.
	Proto string `cbor:"16,keyasint,omitempty"`
	TLS   string `cbor:"17,keyasint,omitempty"`
}

// Location is a place in an archive of WARC files.
type Location struct {
	File   string `cbor:"1,keyasint,omitempty"`
	Offset int64  `cbor:"2,keyasint,omitempty"`
	Length int64  `cbor:"3,keyasint,omitempty"`
}

// PageFlags are a set of marks. Stored: never renumber.
type PageFlags uint16

// The marks.
const (
	PageNoIndex       PageFlags = 1 << iota // asks not to be indexed
	PageNoFollow                            // asks that its links are not followed
	PageNoArchive                           // asks that no copy is kept
	PageDuplicate                           // its body equals that of another page of its host
	PageNearDuplicate                       // its text is like that of another page of its host
	PageSoftNotFound                        // says 200 and means 404
	PageNotCanonical                        // names another URL as the canonical one
)

// Phase says how far a subnet's ownership is.
type Phase uint8

// The phases of a subnet. Stored: never renumber.
const (
	PhaseNone       Phase = iota
	PhaseDeciding         // claimed; the strategy is still looking for the nearest peer
	PhaseOwned            // ours for good, until something changes
	PhaseCommitting       // the grant to a new owner is signed; ours no more, not yet known to be theirs
	PhaseStaged           // somebody's snapshot is here; not ours yet
	PhaseShadow           // a replica of another's subnet
)

// String returns the phase's name as the status outputs use it.
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
	case PhaseShadow:
		return "shadow"
	}
	return "none"
}

// Subnet is the durable state of one subnet at a peer. Lease, Grant and
// Evidence are opaque here: sealed records and samples of room overlay.
type Subnet struct {
	Prefix      netip.Prefix `cbor:"1,keyasint"`
	Phase       Phase        `cbor:"2,keyasint"`
	Lease       []byte       `cbor:"3,keyasint,omitempty"`
	Epoch       uint64       `cbor:"4,keyasint"`
	Since       time.Time    `cbor:"5,keyasint"`
	Evidence    []byte       `cbor:"6,keyasint,omitempty"`
	Grant       []byte       `cbor:"7,keyasint,omitempty"`
	To          string       `cbor:"8,keyasint,omitempty"`  // the heir while committing
	Estimations int          `cbor:"9,keyasint,omitempty"`  // fetches that others did here before the decision
	Asked       string       `cbor:"10,keyasint,omitempty"` // the peer that fetches here now at our request
	// Log and Seq are a place in the log of the subnet's changes: at a replica
	// where it is, at an owner the log that it began (Seq is not kept up).
	Log uint64 `cbor:"11,keyasint,omitempty"`
	Seq uint64 `cbor:"12,keyasint,omitempty"`
	// Cursor says how much of the snapshot a replica has (Tx.Snapshot); nil when
	// it has all of it, empty when nothing yet.
	Cursor []byte `cbor:"13,keyasint"`
	// From is the peer whose subnet a replica holds.
	From string `cbor:"14,keyasint,omitempty"`
}

// FetchRequest asks for one URL to be fetched now: by a worker of this peer, or
// by another peer as an estimation. Its sender has checked scope and robots.txt
// and holds the host's politeness clock meanwhile.
type FetchRequest struct {
	URL   URL        `cbor:"1,keyasint"`
	Addr  netip.Addr `cbor:"2,keyasint"` // dial exactly this
	Depth int        `cbor:"3,keyasint,omitempty"`
	Kind  Kind       `cbor:"4,keyasint,omitempty"`
	// IfNoneMatch and IfModifiedSince make a revisit conditional (RFC 9110,
	// section 13.1).
	IfNoneMatch     string `cbor:"5,keyasint,omitempty"`
	IfModifiedSince string `cbor:"6,keyasint,omitempty"`
	Hops            int    `cbor:"7,keyasint,omitempty"` // redirects in a row that led here
}

// FetchReport is the answer to a FetchRequest.
type FetchReport struct {
	Outcome    Outcome       `cbor:"1,keyasint"`
	Status     int           `cbor:"2,keyasint,omitempty"`
	Bytes      int64         `cbor:"3,keyasint,omitempty"`
	Timing     Timing        `cbor:"4,keyasint"`
	RetryAfter time.Duration `cbor:"5,keyasint,omitempty"`
	// Links are the out-links in scope, in order, each once, of whatever host: the
	// fetcher has them in its record of the page and routes none, so that they are
	// nowhere but where the page is known to be done. After a redirect it is one,
	// where that leads.
	Links []URL `cbor:"6,keyasint,omitempty"`
	// Content is what the owner needs to know of the body, not being the fetcher.
	Content Content `cbor:"7,keyasint,omitempty"`
}

// Content describes a body without being it.
type Content struct {
	Digest       Digest    `cbor:"1,keyasint,omitempty"`
	Fingerprint  uint64    `cbor:"2,keyasint,omitempty"`
	ETag         string    `cbor:"3,keyasint,omitempty"`
	LastModified string    `cbor:"4,keyasint,omitempty"`
	Flags        PageFlags `cbor:"5,keyasint,omitempty"`
}

// Counters are the sums a peer reports; they survive restarts.
type Counters struct {
	Pages                int64 `cbor:"1,keyasint,omitempty"` // 2xx answers whose body was taken by this peer
	Bytes                int64 `cbor:"2,keyasint,omitempty"`
	Failed               int64 `cbor:"3,keyasint,omitempty"` // URLs given up without an answer
	RobotsDenied         int64 `cbor:"4,keyasint,omitempty"`
	Seen                 int64 `cbor:"5,keyasint,omitempty"` // URLs ever accepted into an own queue
	Fetches              int64 `cbor:"6,keyasint,omitempty"` // answers of any status
	Dropped              int64 `cbor:"7,keyasint,omitempty"` // URLs beyond a limit of the profile
	HandoversOut         int64 `cbor:"8,keyasint,omitempty"`
	HandoversIn          int64 `cbor:"9,keyasint,omitempty"`
	EstimationsRequested int64 `cbor:"10,keyasint,omitempty"`
	EstimationsServed    int64 `cbor:"11,keyasint,omitempty"`
	BatchesSent          int64 `cbor:"12,keyasint,omitempty"`
	BatchesReceived      int64 `cbor:"13,keyasint,omitempty"`
	URLsSent             int64 `cbor:"14,keyasint,omitempty"`
	URLsReceived         int64 `cbor:"15,keyasint,omitempty"`
	Revisits             int64 `cbor:"16,keyasint,omitempty"` // answers to visits of pages fetched before
	NotModified          int64 `cbor:"17,keyasint,omitempty"` // of these, those that said: unchanged
	Changed              int64 `cbor:"18,keyasint,omitempty"` // and those whose content had changed
	// Probes are measurements, of whatever kind and by whomever, that strategies
	// had to decide on subnets of this peer; Connects are bare connections that
	// this peer opened to web servers, for itself or for others.
	Probes   int64 `cbor:"19,keyasint,omitempty"`
	Connects int64 `cbor:"20,keyasint,omitempty"`
}
