package admin

import "time"

// Status is the state of a peer at one moment. A peer with no work left
// anywhere shows Frontier and OutboxURLs all 0. Counters go over the life of
// the home, but for UptimeS and ControlBytes, which begin with the process.
type Status struct {
	PeerID         string     `json:"peer_id"`
	Addrs          []string   `json:"addrs"`
	Network        string     `json:"network"`
	Strategy       string     `json:"strategy"`
	UptimeS        float64    `json:"uptime_s"`
	Coordinate     Coordinate `json:"coordinate"`
	PeersConnected int        `json:"peers_connected"`
	Directory      int        `json:"directory"` // peers known, this one not counted
	SubnetsOwned   int        `json:"subnets_owned"`
	Hosts          int        `json:"hosts"`
	Frontier       Frontier   `json:"frontier"`
	OutboxURLs     int64      `json:"outbox_urls"`
	PagesFetched   int64      `json:"pages_fetched"`
	BytesFetched   int64      `json:"bytes_fetched"`
	Failed         int64      `json:"failed"`
	RobotsDenied   int64      `json:"robots_denied"`
	URLsSeen       int64      `json:"urls_seen"`
	// Fetches counts answers of any status, revisits included.
	Fetches int64 `json:"fetches"`
	// Dropped counts URLs that were found and not taken, by the name of the
	// heuristic, or "limit" for the network's limits and what other peers sent
	// wrongly. Marked counts pages that were fetched and found to be something
	// special, such as "duplicate", by name; they are no part of Dropped.
	Dropped  map[string]int64 `json:"dropped"`
	Marked   map[string]int64 `json:"marked"`
	Revisits Revisits         `json:"revisits"`
	Archive  *Archive         `json:"archive"` // null: there is none
	// Registries are the Internet registries' files in the home when the peer
	// started, by name.
	Registries []RegistryFile `json:"registries"`
	// GeoDB is what the data base of places calls itself; "": there is none.
	GeoDB string `json:"geo_db"`
	// Blocked says why nothing, or nothing new, is fetched now, in words.
	Blocked []string `json:"blocked"`
	// VotesFrom is when this peer begins to vote, as a witness, on owners that have
	// fallen silent: some time after its start. Null in a network of one.
	VotesFrom    *time.Time  `json:"votes_from"`
	Batches      Batches     `json:"batches"`
	Estimations  Estimations `json:"estimations"`
	Probes       Probes      `json:"probes"`
	Atlas        Atlas       `json:"atlas"`
	Handovers    Handovers   `json:"handovers"`
	ControlBytes Traffic     `json:"control_bytes"`
}

// RegistryFile is what is known of a delegated file.
type RegistryFile struct {
	Registry string    `json:"registry"`
	Day      string    `json:"day"` // the last that it tells of, YYYYMMDD
	Loaded   time.Time `json:"loaded"`
	Blocks   int       `json:"blocks"`
	Faults   int       `json:"faults"`
}

// Revisits counts answers to visits of pages that were fetched before.
type Revisits struct {
	Done        int64 `json:"done"`
	NotModified int64 `json:"not_modified"` // of these, the server said: unchanged
	Changed     int64 `json:"changed"`      // and those with other content than before
}

// Archive says how full the archive is. The last three counters begin with the
// process.
type Archive struct {
	Files        int   `json:"files"`
	Bytes        int64 `json:"bytes"`     // of all files, indexes included
	Quota        int64 `json:"quota"`     // bytes; 0: no limit
	Exchanges    int64 `json:"exchanges"` // requests with their answers, kept
	Refused      int64 `json:"refused"`   // and those that there was no room for
	RefusedBytes int64 `json:"refused_bytes"`
}

// Coordinate is a place in the coordinate space, in milliseconds. It has the
// fields of coords.Coordinate and converts from it.
type Coordinate struct {
	Vec    []float64 `json:"vec"`
	Height float64   `json:"height"`
	Error  float64   `json:"error"`
}

// Frontier counts URLs that wait or are being fetched.
type Frontier struct {
	Pending  int64 `json:"pending"`   // in queues of our own hosts
	InFlight int64 `json:"in_flight"` // being fetched
	Nursery  int64 `json:"nursery"`   // of subnets that nobody owns yet, or hosts without home
}

// Batches counts URL batches to and from other peers.
type Batches struct {
	Sent         int64 `json:"sent"`
	Received     int64 `json:"received"`
	URLsSent     int64 `json:"urls_sent"`
	URLsReceived int64 `json:"urls_received"`
}

// Estimations counts fetches done by others for us, and by us for others.
type Estimations struct {
	Requested int64 `json:"requested"`
	Served    int64 `json:"served"`
	// Scouts are those of Requested, since the start of the process, that were
	// made in subnets long decided.
	Scouts int64 `json:"scouts"`
}

// Probes counts measurements of web servers.
type Probes struct {
	Made     int64 `json:"made"`     // before subnets of ours were decided: pages and connections, by any peer
	Connects int64 `json:"connects"` // connections without a request that this peer opened to servers
}

// Atlas is what the peer knows of decided subnets, its own among them. The
// counters begin with the process.
type Atlas struct {
	Subnets  int   `json:"subnets"`
	Sent     int64 `json:"sent"`     // announcements of subnets of ours
	Received int64 `json:"received"` // announcements by others that were news
}

// Handovers counts subnets given away and taken over.
type Handovers struct {
	Out int64 `json:"out"`
	In  int64 `json:"in"`
	// Moves are those of Out, since the start of the process, that were made
	// because another peer had become nearer.
	Moves int64 `json:"moves"`
	// Takeovers are subnets that came to this peer, since the start of the
	// process, because their owner was silent.
	Takeovers int64 `json:"takeovers"`
}

// Traffic counts bytes to and from other peers.
type Traffic struct {
	Sent     int64 `json:"sent"`
	Received int64 `json:"received"`
}

// Peer is another peer as this one knows it.
type Peer struct {
	PeerID     string      `json:"peer_id"`
	Addrs      []string    `json:"addrs"`
	Connected  bool        `json:"connected"`
	Coordinate *Coordinate `json:"coordinate"` // null without a beacon
	RTTMs      float64     `json:"rtt_ms"`     // measured; 0: not yet
	WaitMs     float64     `json:"wait_ms"`    // its backlog: what a new URL would wait there
	Capacity   float64     `json:"capacity"`   // relative to other peers
	Version    string      `json:"version"`
	LastSeenS  float64     `json:"last_seen_s"` // age of its last beacon
	DistanceMs float64     `json:"distance_ms"` // predicted round trip
}

// SubnetState says where a subnet stands with this peer.
type SubnetState string

// The states of a subnet.
const (
	SubnetClaimed    SubnetState = "claimed"    // ours, nothing fetched yet
	SubnetEstimating SubnetState = "estimating" // peers are being measured against it
	SubnetOwned      SubnetState = "owned"      // ours to crawl
	SubnetLeaving    SubnetState = "leaving"    // being handed over
)

// Subnet is a subnet that this peer owns or is about to.
type Subnet struct {
	Subnet      string      `json:"subnet"`
	Epoch       uint64      `json:"epoch"`
	Hosts       int         `json:"hosts"`
	Pending     int64       `json:"pending"`
	State       SubnetState `json:"state"`
	Doubted     bool        `json:"doubted"` // perhaps another's by now: nothing is fetched until that is known
	Proxy       *Proxy      `json:"proxy"`   // null before it is located
	Estimations int         `json:"estimations"`
	Since       time.Time   `json:"since"`
}

// Proxy is the proxy coordinate of a subnet's servers: a page of k kilobytes
// takes a peer at distance d about Delay + Scale·d + PerKB·k milliseconds. It
// has the fields of coords.Proxy.
type Proxy struct {
	At      Coordinate `json:"at"`
	Delay   float64    `json:"delay"`
	Scale   float64    `json:"scale"`
	PerKB   float64    `json:"per_kb"`
	Error   float64    `json:"error"`
	Samples int        `json:"samples"`
}

// HostRole says what this peer does with the URLs of a host.
type HostRole string

// The roles of a host.
const (
	HostOwn        HostRole = "own"        // crawls them
	HostOutbox     HostRole = "outbox"     // sends them to Owner
	HostNursery    HostRole = "nursery"    // keeps them until the subnet is worth a claim
	HostUnresolved HostRole = "unresolved" // does not know the host's home yet
)

// Host is a host of which URLs wait here.
type Host struct {
	Host     string     `json:"host"`
	Subnet   string     `json:"subnet"` // empty while unresolved
	Role     HostRole   `json:"role"`
	Pending  int64      `json:"pending"`
	InFlight int64      `json:"in_flight"`
	NextAt   *time.Time `json:"next_at"` // when it may be asked again; null: now, or not ours
	DelayMs  float64    `json:"delay_ms"`
	Owner    string     `json:"owner"` // peer ID; empty when unknown
}

// Link is a page that this peer fetched, with the links on it.
type Link struct {
	URL        string    `json:"url"`
	Status     int       `json:"status"` // HTTP status; 0: no answer
	Outcome    string    `json:"outcome"`
	Bytes      int64     `json:"bytes"`
	FetchedAt  time.Time `json:"fetched_at"`
	Outlinks   []string  `json:"outlinks"`
	Estimation bool      `json:"estimation"` // fetched at the request of another peer
	TookMs     float64   `json:"took_ms"`
}

// Drain says how far a peer is that hands everything over before it stops.
type Drain struct {
	Subnets int64 `json:"subnets"` // that it owned when it began, or got since
	Left    int64 `json:"left"`    // of these, it still owns
	URLs    int64 `json:"urls"`    // that wait at it for other peers
	Over    bool  `json:"over"`    // it stops now
	// Fault says why something is left when it is over; "": nothing is.
	Fault string `json:"fault"`
}

// LeaveRequest is the body of a leave request.
type LeaveRequest struct {
	LimitS float64 `json:"limit_s"` // in seconds, at most MaxLeave
}

// SeedRequest is the body of a seed request: at most MaxSeedURLs URLs.
type SeedRequest struct {
	URLs []string `json:"urls"`
}

// SeedResult says what became of seed URLs.
type SeedResult struct {
	Accepted   int        `json:"accepted"` // new
	Known      int        `json:"known"`    // seen before
	OutOfScope []Rejected `json:"out_of_scope"`
	Invalid    []Rejected `json:"invalid"`
}

// Rejected is a URL that was not taken, and why.
type Rejected struct {
	URL    string `json:"url"`
	Reason string `json:"reason"`
}

// OK says whether every URL was taken.
func (r SeedResult) OK() bool { return len(r.OutOfScope) == 0 && len(r.Invalid) == 0 }

// Add joins the result of another part of the same URLs to r.
func (r *SeedResult) Add(o SeedResult) {
	r.Accepted += o.Accepted
	r.Known += o.Known
	r.OutOfScope = append(r.OutOfScope, o.OutOfScope...)
	r.Invalid = append(r.Invalid, o.Invalid...)
}
