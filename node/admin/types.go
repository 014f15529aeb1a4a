package admin

import (
	"fmt"
	"time"
)

// Status is the state of a peer at one moment. Frontier and OutboxURLs of a peer without
// work are all 0. Counters cover the lifetime of the home, except UptimeS and ControlBytes,
// which start with the process.
type Status struct {
	PeerID         string     `json:"peer_id"`
	Health         Health     `json:"health"`
	Addrs          []string   `json:"addrs"`
	Network        string     `json:"network"`
	Strategy       string     `json:"strategy"`
	UptimeS        float64    `json:"uptime_s"`
	Coordinate     Coordinate `json:"coordinate"`
	PeersConnected int        `json:"peers_connected"`
	Directory      int        `json:"directory"` // known peers without this one
	// Bootstrap is the state of each bootstrap address.
	Bootstrap    []BootstrapAddr `json:"bootstrap"`
	SubnetsOwned int             `json:"subnets_owned"`
	// SubnetsSilent counts the subnets of silent owners of which this peer has a complete copy. It
	// or another peer takes them over in time; until then their URLs wait and are counted nowhere.
	SubnetsSilent int      `json:"subnets_silent"`
	Hosts         int      `json:"hosts"`
	Frontier      Frontier `json:"frontier"`
	OutboxURLs    int64    `json:"outbox_urls"`
	PagesFetched  int64    `json:"pages_fetched"`
	BytesFetched  int64    `json:"bytes_fetched"`
	Failed        int64    `json:"failed"`
	RobotsDenied  int64    `json:"robots_denied"`
	URLsSeen      int64    `json:"urls_seen"`
	// Fetches counts responses of any status, including those to revisits.
	Fetches int64 `json:"fetches"`
	// Dropped counts URLs that were found but not accepted, by the name of the heuristic, or
	// "limit" for the limits of the network and for invalid URLs from other peers. Marked
	// counts fetched pages with a property such as "duplicate", by its name; Dropped does not
	// include them.
	Dropped  map[string]int64 `json:"dropped"`
	Marked   map[string]int64 `json:"marked"`
	Revisits Revisits         `json:"revisits"`
	Archive  *Archive         `json:"archive"` // null: the peer keeps no archive
	// Replay is the URL at which browsers of the peer's machine see its archived pages; "": none.
	Replay string `json:"replay"`
	// Registries describes the Internet registries' files, by name, if the strategy needs them.
	Registries []RegistryFile `json:"registries"`
	// GeoDB is the name that the geolocation database gives itself; "": there is none.
	GeoDB string `json:"geo_db"`
	// Offline is the outage of this peer's network; null: the network is up.
	Offline *Offline `json:"offline"`
	// Clock compares the clock of this peer with those of others; null: none has shown its.
	Clock *Clock `json:"clock"`
	// Reachability says how other peers connect to this one: direct, relayed (through other
	// members), or none; "": that is not known.
	Reachability string `json:"reachability"`
	// Blocked lists the reasons why nothing, or nothing new, is fetched now.
	Blocked []string `json:"blocked"`
	// VotesFrom is when this peer starts to vote, as a witness, on owners that have fallen
	// silent: some time after its start. Null in a network of one.
	VotesFrom    *time.Time  `json:"votes_from"`
	Batches      Batches     `json:"batches"`
	Estimations  Estimations `json:"estimations"`
	Probes       Probes      `json:"probes"`
	OwnerMap     OwnerMap    `json:"owner_map"`
	Handovers    Handovers   `json:"handovers"`
	ControlBytes Traffic     `json:"control_bytes"`
}

// HealthState is how a peer is, in one word.
type HealthState string

// The states, each of which hides those after it.
const (
	HealthPaused      HealthState = "paused"
	HealthOffline     HealthState = "offline"   // its network is down
	HealthHeldBack    HealthState = "held back" // by a limit, or for safety
	HealthJoining     HealthState = "joining"
	HealthAlone       HealthState = "alone"
	HealthUnreachable HealthState = "unreachable from outside"
	HealthCrawling    HealthState = "crawling"
	HealthCollecting  HealthState = "collecting" // fetches nothing, and copies archives of others
	HealthIdle        HealthState = "idle"
	HealthDone        HealthState = "done"
)

// Health is how a peer is, why, and what its operator can do; "": nothing.
type Health struct {
	State HealthState `json:"state"`
	Why   string      `json:"why"`
	Do    string      `json:"do"`
}

// PauseRequest is the body of a request to pause or to resume.
type PauseRequest struct {
	Resume bool    `json:"resume"`
	ForS   float64 `json:"for_s"` // seconds; 0: until the peer resumes
}

// Reloaded is what a reload of config.toml has changed.
type Reloaded struct {
	Applied []string `json:"applied"` // KEY = VALUE
	Restart []string `json:"restart"` // keys that have changed and need a restart
}

// BootstrapAddr is the state of one bootstrap address.
type BootstrapAddr struct {
	Addr        string     `json:"addr"`
	Connected   bool       `json:"connected"`
	LastError   string     `json:"last_error"`   // of the last attempt; "": none failed
	NextAttempt *time.Time `json:"next_attempt"` // null while connected
}

// Clock compares the clock of a peer with those of the peers that introduced themselves last.
type Clock struct {
	// AheadS is by how many seconds it is ahead of theirs (the median); negative: behind.
	AheadS float64 `json:"ahead_s"`
	Peers  int     `json:"peers"` // with which it was compared
	// Wrong says that it differs so much that these peers and this one refuse what the other
	// announces.
	Wrong bool `json:"wrong"`
}

// SetClock is what to do about a wrong clock.
const SetClock = "set the clock: timedatectl set-ntp true"

// String says by how much the clock differs, such as "20m0s behind those of other peers (3)".
func (c Clock) String() string {
	ahead, word := time.Duration(c.AheadS*float64(time.Second)).Round(time.Second), "ahead of"
	if ahead < 0 {
		ahead, word = -ahead, "behind"
	}
	return fmt.Sprintf("%s %s those of other peers (%d)", ahead, word, c.Peers)
}

// Offline is an outage of the network of a peer.
type Offline struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"`
}

// RegistryFile describes a delegated file.
type RegistryFile struct {
	Registry string    `json:"registry"`
	Day      string    `json:"day"` // the last day that it covers, YYYYMMDD
	Loaded   time.Time `json:"loaded"`
	Blocks   int       `json:"blocks"`
	Faults   int       `json:"faults"`
}

// Revisits counts responses to revisits.
type Revisits struct {
	Done        int64 `json:"done"`
	NotModified int64 `json:"not_modified"` // of Done, with HTTP status 304
	Changed     int64 `json:"changed"`      // of Done, with changed content
}

// Archive is the state of the archive. The last three counters start with the process.
type Archive struct {
	Files        int   `json:"files"`
	Bytes        int64 `json:"bytes"`     // of all files, including indexes
	Quota        int64 `json:"quota"`     // bytes; 0: no limit
	Exchanges    int64 `json:"exchanges"` // requests stored with their responses
	Refused      int64 `json:"refused"`   // responses that did not fit
	RefusedBytes int64 `json:"refused_bytes"`
	// Mirrors is the number of peers that follow the archive to keep a copy of it, of
	// MirrorsWanted, and MirrorLag the bytes that the best one lacks.
	Mirrors       int   `json:"mirrors"`
	MirrorsWanted int   `json:"mirrors_wanted"`
	MirrorLag     int64 `json:"mirror_lag"`
	// Copies is the number of archives of others of which this peer keeps a copy.
	Copies     int   `json:"copies"`
	CopiedSize int64 `json:"copied_bytes"`
}

// Coordinate is a point in the coordinate space, in milliseconds. It has the fields of
// coords.Coordinate and converts from it.
type Coordinate struct {
	Vec    []float64 `json:"vec"`
	Height float64   `json:"height"`
	Error  float64   `json:"error"`
}

// Frontier counts URLs that are waiting or being fetched.
type Frontier struct {
	Pending   int64 `json:"pending"`   // in the queues of this peer's hosts
	InFlight  int64 `json:"in_flight"` // being fetched
	Unclaimed int64 `json:"unclaimed"` // of subnets without owner or hosts without address
}

// Batches counts URL batches to and from other peers.
type Batches struct {
	Sent         int64 `json:"sent"`
	Received     int64 `json:"received"`
	URLsSent     int64 `json:"urls_sent"`
	URLsReceived int64 `json:"urls_received"`
}

// Estimations counts estimations, which are fetches at the request of an owner.
type Estimations struct {
	Requested int64 `json:"requested"` // by this peer
	Served    int64 `json:"served"`    // for other peers
	// Scouts counts those of Requested, since the start of the process, that checked the
	// owner of a subnet again.
	Scouts int64 `json:"scouts"`
}

// Probes counts measurements of web servers.
type Probes struct {
	// Made counts pages and connections, by any peer, that decided on subnets of this peer.
	Made int64 `json:"made"`
	// Connects counts connections without a request that this peer opened.
	Connects int64 `json:"connects"`
}

// OwnerMap describes what the peer knows of decided subnets, including its own. The
// counters start with the process.
type OwnerMap struct {
	Subnets  int   `json:"subnets"`
	Sent     int64 `json:"sent"`     // announcements of this peer's subnets
	Received int64 `json:"received"` // announcements by other peers that were new
}

// Handovers counts subnets that left this peer and that came to it.
type Handovers struct {
	Out int64 `json:"out"`
	In  int64 `json:"in"`
	// Moves counts those of Out, since the start of the process, that went to a nearer peer.
	Moves int64 `json:"moves"`
	// Takeovers counts the subnets that came to this peer, since the start of the process,
	// because their owner fell silent.
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
	Relayed    bool        `json:"relayed"`    // connected through other members only
	Coordinate *Coordinate `json:"coordinate"` // null without a beacon
	RTTMs      float64     `json:"rtt_ms"`     // measured; 0: not yet
	WaitMs     float64     `json:"wait_ms"`    // time that a new URL would wait there
	Capacity   float64     `json:"capacity"`   // relative to other peers
	Version    string      `json:"version"`
	LastSeenS  float64     `json:"last_seen_s"` // age of its last beacon
	DistanceMs float64     `json:"distance_ms"` // predicted round-trip time
	Earth      *Earth      `json:"earth"`       // null: unknown, or there is no database
	// Trust is what the checks of its reports of pages have shown: untested, trusted, doubted or
	// liar; empty if it has made none.
	Trust  string        `json:"trust,omitempty"`
	Checks []ReportCheck `json:"checks,omitempty"` // the newest last
}

// ReportCheck is a check of what another peer has reported of a page, by a fetch of this peer.
type ReportCheck struct {
	At     time.Time `json:"at"`
	URL    string    `json:"url"`
	Agrees bool      `json:"agrees"`
	Said   string    `json:"said"`
	Found  string    `json:"found"`
}

// SubnetState is the state of a subnet at its owner.
type SubnetState string

// The states of a subnet.
const (
	SubnetEstimating SubnetState = "estimating" // peers are being measured against it
	SubnetOwned      SubnetState = "owned"
	SubnetLeaving    SubnetState = "leaving" // being handed over
)

// Subnet is a subnet that this peer owns.
type Subnet struct {
	Subnet  string      `json:"subnet"`
	Epoch   uint64      `json:"epoch"`
	Hosts   int         `json:"hosts"`
	Pending int64       `json:"pending"`
	State   SubnetState `json:"state"`
	// Unverified means that another peer may own it by now, because its lease is in doubt or
	// this peer has no quorum lease. Nothing is fetched from it until that is known.
	Unverified  bool      `json:"unverified"`
	Proxy       *Proxy    `json:"proxy"` // null before it is located
	Estimations int       `json:"estimations"`
	Since       time.Time `json:"since"`
	// PredictedMs and MeasuredMs are moving averages over this peer's pages there: the predicted
	// and the measured download time without connecting. Measured is the number of pages since
	// the start of the process; 0: none yet.
	PredictedMs float64 `json:"predicted_ms"`
	MeasuredMs  float64 `json:"measured_ms"`
	Measured    int     `json:"measured"`
	// Why says how this peer became the owner; "": it was before the start of the process.
	Why string `json:"why"`
}

// Proxy is the proxy coordinate of a subnet's servers: a page of k kilobytes takes a peer at
// distance d about Delay + Scale·d + PerKB·k milliseconds. It has the fields of
// coords.Proxy.
type Proxy struct {
	At      Coordinate `json:"at"`
	Delay   float64    `json:"delay"`
	Scale   float64    `json:"scale"`
	PerKB   float64    `json:"per_kb"`
	Error   float64    `json:"error"`
	Samples int        `json:"samples"`
}

// HostRole is what this peer does with the URLs of a host.
type HostRole string

// The roles of a host.
const (
	HostOwn        HostRole = "own"        // crawls them
	HostOutbox     HostRole = "outbox"     // sends them to Owner
	HostUnclaimed  HostRole = "unclaimed"  // keeps them until it claims the subnet
	HostUnresolved HostRole = "unresolved" // does not know the host's subnet yet
)

// Host is a host that has URLs waiting at this peer.
type Host struct {
	Host     string     `json:"host"`
	Subnet   string     `json:"subnet"` // empty while unresolved
	Role     HostRole   `json:"role"`
	Pending  int64      `json:"pending"`
	InFlight int64      `json:"in_flight"`
	NextAt   *time.Time `json:"next_at"` // next request; null: now, or another peer's host
	DelayMs  float64    `json:"delay_ms"`
	Owner    string     `json:"owner"` // peer ID; empty when unknown
}

// Link is a page that this peer fetched, with its links.
type Link struct {
	URL        string    `json:"url"`
	Status     int       `json:"status"` // HTTP status; 0: no response
	Outcome    string    `json:"outcome"`
	Bytes      int64     `json:"bytes"`
	FetchedAt  time.Time `json:"fetched_at"`
	Outlinks   []string  `json:"outlinks"`
	Estimation bool      `json:"estimation"` // fetched at the request of another peer
	TookMs     float64   `json:"took_ms"`
}

// GivenUp is a URL that this peer no longer tries to fetch.
type GivenUp struct {
	URL     string    `json:"url"`
	Outcome string    `json:"outcome"` // of the last try
	Status  int       `json:"status"`  // of the last try; 0: no response
	Error   string    `json:"error"`   // of the last try, in words
	At      time.Time `json:"at"`      // when it was given up
	First   time.Time `json:"first"`   // when it first failed
	Tries   int       `json:"tries"`   // that failed because of the URL itself
	Depth   int       `json:"depth"`
	// Connectivity reports whether it was given up because its server could not be reached.
	Connectivity bool `json:"connectivity"`
}

// RetryRequest is the body of a retry request: which URLs that were given up to queue again.
// Exactly one field is set.
type RetryRequest struct {
	Host string `json:"host,omitempty"`
	URL  string `json:"url,omitempty"`
	All  bool   `json:"all,omitempty"`
}

// RetryResult is the result of a retry request.
type RetryResult struct {
	Queued int `json:"queued"` // URLs
}

// Drain is the progress of a peer that hands everything over before it stops.
type Drain struct {
	Subnets   int64 `json:"subnets"`   // owned at the start, or later if that is more
	Remaining int64 `json:"remaining"` // subnets that it still owns
	URLs      int64 `json:"urls"`      // pending for other peers
	// HandingOver is one of the subnets that are on their way to another peer; "": none is.
	HandingOver string `json:"handing_over"`
	Done        bool   `json:"done"` // nothing more is handed over: the peer stops now
	// Reason is why something remains when Done is true; "": nothing does.
	Reason string `json:"reason"`
}

// LeaveRequest is the body of a leave request.
type LeaveRequest struct {
	LimitS float64 `json:"limit_s"` // in seconds, at most MaxLeave
}

// RobotsRequest is the body of a request about robots.txt.
type RobotsRequest struct {
	Host    string `json:"host"`
	Refresh bool   `json:"refresh"` // request the files again
}

// States of a robots.txt.
const (
	RobotsKnown       = "known"       // its rules are in force
	RobotsAbsent      = "absent"      // everything is allowed
	RobotsStale       = "stale"       // unreachable; an earlier copy is in force
	RobotsUnreachable = "unreachable" // nothing is fetched
)

// RobotsFile is what is known of the robots.txt of an origin.
type RobotsFile struct {
	Origin string `json:"origin"`
	State  string `json:"state"`
	Status int    `json:"status"` // of the file that is in force; 0 without an answer
	Bytes  int    `json:"bytes"`
	// Fetched is the time of the last request, and Expires that of the next, at the earliest.
	Fetched          time.Time  `json:"fetched"`
	Expires          time.Time  `json:"expires"`
	UnreachableSince *time.Time `json:"unreachable_since"` // null if reachable
}

// SeedRequest is the body of a seed request: at most MaxSeedURLs URLs.
type SeedRequest struct {
	URLs []string `json:"urls"`
}

// SeedResult is the result of a seed request.
type SeedResult struct {
	Accepted   int        `json:"accepted"` // new
	Known      int        `json:"known"`    // seen before
	OutOfScope []Rejected `json:"out_of_scope"`
	Invalid    []Rejected `json:"invalid"`
}

// Rejected is a URL that was not accepted, with the reason.
type Rejected struct {
	URL    string `json:"url"`
	Reason string `json:"reason"`
}

// OK reports whether every URL was accepted.
func (r SeedResult) OK() bool { return len(r.OutOfScope) == 0 && len(r.Invalid) == 0 }

// Add adds the result for further URLs to r.
func (r *SeedResult) Add(o SeedResult) {
	r.Accepted += o.Accepted
	r.Known += o.Known
	r.OutOfScope = append(r.OutOfScope, o.OutOfScope...)
	r.Invalid = append(r.Invalid, o.Invalid...)
}
