package admin

import "time"

// Site is where the servers of a decided subnet are, as the owner map has it.
type Site struct {
	Subnet string     `json:"subnet"`
	Owner  string     `json:"owner"` // peer ID
	Own    bool       `json:"own"`   // this peer is the owner
	At     Coordinate `json:"at"`
	Earth  *Earth     `json:"earth"` // null: unknown, or there is no database
}

// Earth is a place on Earth, in degrees, by the geolocation database.
type Earth struct {
	Lat float64 `json:"lat"`
	Lon float64 `json:"lon"`
}

// Gain says what the strategy gains: how long pages take from the subnets of this peer, and how
// long they would take other owners. The times are averages over the pages fetched since the start
// of the process, of the subnets with most of them. Those of owners are predictions for a typical
// page by what is known now.
type Gain struct {
	Strategy   string  `json:"strategy"`
	Subnets    int     `json:"subnets"` // that are compared
	Pages      int     `json:"pages"`
	MeasuredMs float64 `json:"measured_ms"` // by this peer, without connecting
	HereMs     float64 `json:"here_ms"`     // predicted for this peer
	RandomMs   float64 `json:"random_ms"`   // if the owner were a random peer: the mean of all
	BestMs     float64 `json:"best_ms"`     // if it were the fastest peer known (an oracle)
}

// EventKind says what an event is about.
type EventKind string

// The kinds of events.
const (
	EventGained  EventKind = "gained"  // this peer became the owner of Subnet
	EventLost    EventKind = "lost"    // it is the owner no more
	EventLeaving EventKind = "leaving" // it began to hand Subnet over
	EventPeer    EventKind = "peer"    // another peer appeared or disappeared
	EventOther   EventKind = "other"
)

// Event is something that happened at the peer: a message of its log, of level INFO or more.
type Event struct {
	Seq   uint64    `json:"seq"` // increases by one from 1, which is the first of the process
	At    time.Time `json:"at"`
	Level string    `json:"level"` // INFO, WARN or ERROR
	Kind  EventKind `json:"kind"`
	Text  string    `json:"text"`
	// Subnet and Peer are what it is about; "": nothing in particular.
	Subnet string `json:"subnet"`
	Peer   string `json:"peer"`
}

// Missed tells the client of a stream how many events it will not receive.
type Missed struct {
	Events uint64 `json:"events"`
}

// Verdict says whether a subnet is where it should be.
type Verdict string

// The verdicts.
const (
	// the owner is as near as any peer known here, within a quarter
	VerdictRight   Verdict = "right"
	VerdictWrong   Verdict = "wrong"   // another peer would be faster
	VerdictUnknown Verdict = "unknown" // the subnet is not located, or its owner is not known
)

// Move is a subnet that came to this peer or went from it.
type Move struct {
	Seq    uint64    `json:"seq"` // of its event; 0: before the start of the process
	At     time.Time `json:"at"`
	Subnet string    `json:"subnet"`
	Kind   EventKind `json:"kind"` // gained or lost
	Peer   string    `json:"peer"` // from which it came, or to which it went; "": none is known
	Why    string    `json:"why"`
	// OwnerMs is the predicted download time of a typical page for the present owner, HereMs that
	// for this peer, and BestMs that for the fastest peer known; 0: unknown. MeasuredMs is what
	// this peer measured for its own subnets.
	OwnerMs    float64 `json:"owner_ms"`
	HereMs     float64 `json:"here_ms"`
	BestMs     float64 `json:"best_ms"`
	MeasuredMs float64 `json:"measured_ms"`
	Verdict    Verdict `json:"verdict"`
}

// Placement says which peer owns a subnet, and why.
type Placement struct {
	Of     string `json:"of"`     // the host, address or subnet that was asked for
	Subnet string `json:"subnet"` // of the address
	// Found says how the subnet of a host was found: "queue", "outbox", "lookup" or "given".
	Found string `json:"found"`
	Owner string `json:"owner"` // peer ID; "": none is known
	Own   bool   `json:"own"`
	Epoch uint64 `json:"epoch"` // 0: unknown
	// Why says in sentences why this peer is the owner.
	Why     string  `json:"why"`
	Verdict Verdict `json:"verdict"`
	// Candidates are peers by the predicted time of a typical page, the fastest first, at most
	// ten and the owner; empty before the subnet is located.
	Candidates []Candidate `json:"candidates"`
	Moves      []Move      `json:"moves"` // the latest first
}

// Candidate is a peer that could own a subnet.
type Candidate struct {
	PeerID      string  `json:"peer_id"`
	Self        bool    `json:"self"`
	Owner       bool    `json:"owner"`
	PredictedMs float64 `json:"predicted_ms"` // for a typical page, over an open connection
	DistanceMs  float64 `json:"distance_ms"`  // to the servers
}

// Page is a page that this peer fetched recently.
type Page struct {
	Seq         uint64    `json:"seq"` // increases by one from 1; 0: not of the list of pages
	URL         string    `json:"url"`
	Status      int       `json:"status"` // HTTP status; 0: no response
	Outcome     string    `json:"outcome"`
	Bytes       int64     `json:"bytes"`
	ContentType string    `json:"content_type"`
	FetchedAt   time.Time `json:"fetched_at"`
	TookMs      float64   `json:"took_ms"`
	Links       int       `json:"links"`
	Estimation  bool      `json:"estimation"` // fetched at the request of another peer
	Title       string    `json:"title"`
}

// Limit is something that may limit the peer.
type Limit struct {
	Name    string `json:"name"`
	Setting string `json:"setting"` // the key in config.toml; "": there is none
	// of Used and Max: bytes, bytes/s, pages, URLs, requests, servers
	Unit    string  `json:"unit"`
	Used    float64 `json:"used"`
	Max     float64 `json:"max"`     // 0: no limit
	Least   bool    `json:"least"`   // Max is a minimum
	Active  bool    `json:"active"`  // it limits the peer now
	Advice  string  `json:"advice"`  // what it means now, and what to do
	Blocked bool    `json:"blocked"` // nothing is fetched because of it
}

// Setting is a setting in effect.
type Setting struct {
	Key     string `json:"key"`
	Value   string `json:"value"`
	Default string `json:"default"`
	Changed bool   `json:"changed"` // Value is not Default
}

// DenyRule is a rule of the deny list.
type DenyRule struct {
	Rule string `json:"rule"`
	// OptOut means that Rule is a web site that has opted out, and Until when its file is read
	// again.
	OptOut bool       `json:"opt_out"`
	Until  *time.Time `json:"until"`
}

// Sample is the state of counters at one moment. They start with the home.
type Sample struct {
	At      time.Time `json:"at"`
	Pages   int64     `json:"pages"`
	Fetches int64     `json:"fetches"`
	Served  int64     `json:"served"` // pages fetched at the request of other peers
	Bytes   int64     `json:"bytes"`
	Free    int64     `json:"free"`    // bytes of free disk space
	Pending int64     `json:"pending"` // URLs in the queues
}

// Disk is the state of the disk of the home.
type Disk struct {
	Free    int64 `json:"free"`     // bytes
	MinFree int64 `json:"min_free"` // nothing is fetched with less
	// PerDay is the change of the used space in bytes per day, by all programs, over the time
	// ObservedS in seconds; 0 until that is ten minutes.
	PerDay    float64 `json:"per_day"`
	ObservedS float64 `json:"observed_s"`
	// FullAt is when Free reaches MinFree at that rate; null: not within ten years, or unknown.
	FullAt *time.Time `json:"full_at"`
}

// Stopping is the response to a stop request.
type Stopping struct {
	Stopping bool `json:"stopping"`
}

// LoginCode is a code with which one browser can log in, once.
type LoginCode struct {
	Code  string  `json:"code"`
	LifeS float64 `json:"life_s"` // for which it is valid
}

// LoginRequest is the body of a login.
type LoginRequest struct {
	Code string `json:"code"`
}
