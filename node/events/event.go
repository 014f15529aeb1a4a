package events

// Schema is the version of the form of events. It changes if the meaning of a field does.
const Schema = 1

// Kind is the name of a kind of events.
type Kind string

// Kinds returns a new event of each kind, in the order of the documentation.
func Kinds() []Event {
	return []Event{new(Start), new(Fetch), new(Page), new(Sample), new(State), new(Lease),
		new(Decision), new(Review), new(Message), new(Batch), new(Exchange), new(Mark), new(Lost)}
}

// Event is a pointer to one of the types with a Header.
type Event interface {
	Head() *Header
	kind() Kind
}

// Header is the beginning of every event.
type Header struct {
	T    int64 `json:"t,omitempty"` // microseconds since 1970-01-01 UTC
	Kind Kind  `json:"kind"`
	// Self is the peer that wrote the event, and Run the number of its run. A log has them in the
	// event start only; a Reader adds them to the following events, and a merged log has them in
	// all.
	Self string `json:"self,omitempty"`
	Run  string `json:"run,omitempty"`
	// Bound is by how much T may be wrong in a merged log, in microseconds.
	Bound int64 `json:"bound,omitempty"`
}

// Head returns the header, to read or change it.
func (h *Header) Head() *Header { return h }

// Start is the first event of a run.
type Start struct {
	Header
	Schema   int    `json:"schema"`
	Version  string `json:"version"` // of peerd
	Network  string `json:"network"`
	Strategy string `json:"strategy"`
}

// Times are the phases of a download in milliseconds.
type Times struct {
	DNS       float64 `json:"dns_ms,omitempty"`
	Connect   float64 `json:"connect_ms,omitempty"`
	TLS       float64 `json:"tls_ms,omitempty"`
	FirstByte float64 `json:"first_byte_ms,omitempty"`
	Body      float64 `json:"body_ms,omitempty"`
	Reused    bool    `json:"reused,omitempty"` // the connection
}

// Total returns the download time: the sum of all phases but DNS.
func (t Times) Total() float64 { return t.Connect + t.TLS + t.FirstByte + t.Body }

// Fetch is a request of this peer to a web server, or a connection without one, that has ended.
type Fetch struct {
	Header
	Subnet string `json:"subnet"`
	// Served reports that another peer, the owner of the subnet, has asked for it.
	Served  bool   `json:"served,omitempty"`
	Outcome string `json:"outcome"`
	Status  int    `json:"status,omitempty"` // of HTTP
	Bytes   int64  `json:"bytes,omitempty"`
	Times
	// Predicted is the expected time from the end of the request to the end of the body; 0: none.
	Predicted float64 `json:"predicted_ms,omitempty"`
}

// Page is a page that this peer has fetched and stored.
type Page struct {
	Header
	URL     string  `json:"url"`
	Status  int     `json:"status,omitempty"`
	Outcome string  `json:"outcome"`
	Bytes   int64   `json:"bytes,omitempty"`
	Links   int     `json:"links,omitempty"` // distinct ones in the scope of the network
	Took    float64 `json:"took_ms"`
	Served  bool    `json:"served,omitempty"`
	// Check reports that another peer had reported the page, and this one fetched it to compare.
	Check bool `json:"check,omitempty"`
}

// Sample is a measurement that another peer has made at the request of this one.
type Sample struct {
	Header
	Subnet  string     `json:"subnet"`
	Peer    string     `json:"peer"`
	At      Coordinate `json:"at"` // of that peer
	Outcome string     `json:"outcome,omitempty"`
	Bytes   int64      `json:"bytes,omitempty"`
	Times
	Error string `json:"error,omitempty"` // why there is no measurement
}

// Coordinate is coords.Coordinate.
type Coordinate struct {
	Vec    []float64 `json:"vec"`
	Height float64   `json:"height"`
	Error  float64   `json:"error"`
}

// State is the state of this peer, every ten seconds. Counters count from the creation of the
// store.
type State struct {
	Header
	At       Coordinate `json:"at"`                 // without load
	Wait     float64    `json:"wait_ms,omitempty"`  // of a new URL for a worker
	Capacity float64    `json:"capacity,omitempty"` // relative to other peers
	Moved    float64    `json:"moved,omitempty"`    // path of the coordinate since the start

	Queued    int64 `json:"queued,omitempty"` // URLs
	InFlight  int   `json:"in_flight,omitempty"`
	Outbox    int64 `json:"outbox,omitempty"`    // URLs on their way to other owners
	Unclaimed int64 `json:"unclaimed,omitempty"` // URLs in subnets without an owner
	Hosts     int   `json:"hosts,omitempty"`

	Subnets   int `json:"subnets,omitempty"`
	Known     int `json:"known,omitempty"`     // other peers
	Connected int `json:"connected,omitempty"` // other peers

	Pages        int64 `json:"pages,omitempty"`
	Fetches      int64 `json:"fetches,omitempty"`
	Bytes        int64 `json:"bytes,omitempty"`
	Failed       int64 `json:"failed,omitempty"` // URLs that were given up
	URLsSent     int64 `json:"urls_sent,omitempty"`
	URLsReceived int64 `json:"urls_received,omitempty"`
	Estimations  int64 `json:"estimations,omitempty"` // pages that others were asked to fetch
	Served       int64 `json:"served,omitempty"`      // pages fetched for others
	HandoversIn  int64 `json:"handovers_in,omitempty"`
	HandoversOut int64 `json:"handovers_out,omitempty"`
	Sent         int64 `json:"sent_bytes,omitempty"` // to other peers, since the start
	Received     int64 `json:"received_bytes,omitempty"`

	Load1 float64 `json:"load1,omitempty"` // of the machine: processes, mean of a minute
}

// Lease is a change in the subnets of this peer, seen at a State.
type Lease struct {
	Header
	Subnet string `json:"subnet"`
	Epoch  uint64 `json:"epoch"`
	// Phase is deciding, owned or another state of a subnet; "gone" if it is here no more.
	Phase string `json:"phase"`
	// Replicas is the number of complete copies at other peers.
	Replicas int `json:"replicas,omitempty"`
	// Proxy is the proxy coordinate that the lease announces; nil: none.
	Proxy *Proxy `json:"proxy,omitempty"`
}

// Proxy is the coordinate of the web servers of a subnet; see coords.Proxy.
type Proxy struct {
	At      Coordinate `json:"at"`
	Delay   float64    `json:"delay_ms"`
	Scale   float64    `json:"scale"`
	PerKB   float64    `json:"per_kb_ms"`
	Error   float64    `json:"error"` // median, relative, of predictions
	Samples int        `json:"samples"`
}

// Decision is a choice of the strategy with its evidence. The choice has taken effect if a message
// "chose owner" follows. Without it, only the proxy coordinate was fitted again.
type Decision struct {
	Header
	Subnet     string      `json:"subnet"`
	Choice     string      `json:"choice"`
	Forced     bool        `json:"forced,omitempty"` // no page was left to measure with
	Proxy      *Proxy      `json:"proxy,omitempty"`
	Candidates []Candidate `json:"candidates"`
	Evidence   []Evidence  `json:"evidence"` // the oldest first
}

// Candidate is a peer that could own the subnet.
type Candidate struct {
	Peer      string     `json:"peer"`
	At        Coordinate `json:"at"`
	Wait      float64    `json:"wait_ms,omitempty"`
	Capacity  float64    `json:"capacity,omitempty"`
	Excluded  bool       `json:"excluded,omitempty"`     // it did not answer
	Predicted float64    `json:"predicted_ms,omitempty"` // for a typical page; 0: unknown
}

// Evidence is one measurement of a subnet.
type Evidence struct {
	Peer   string     `json:"peer"`
	At     Coordinate `json:"at"` // then
	Bytes  int64      `json:"bytes,omitempty"`
	Failed bool       `json:"failed,omitempty"`
	Age    float64    `json:"age_s"`
	Times
}

// Review is the result of a review that found a nearer peer.
type Review struct {
	Header
	Subnet     string  `json:"subnet"`
	Better     string  `json:"better"`
	Gain       float64 `json:"gain"`  // share of the owner's time
	Doubt      float64 `json:"doubt"` // probability that a move would be needless
	WaitSelf   float64 `json:"wait_self_ms,omitempty"`
	WaitBetter float64 `json:"wait_better_ms,omitempty"`
}

// Message is a message of the peer's log at level INFO or above: claims, handovers, takeovers,
// failures.
type Message struct {
	Header
	Level   string            `json:"level"`
	Text    string            `json:"text"`
	Subnet  string            `json:"subnet,omitempty"`
	Peer    string            `json:"peer,omitempty"`
	Details map[string]string `json:"details,omitempty"`
}

// Batch is a message with URLs.
type Batch struct {
	Header
	Peer     string  `json:"peer"`
	Sent     bool    `json:"sent,omitempty"` // by this peer, else received
	Hosts    int     `json:"hosts"`
	URLs     int     `json:"urls"`
	Accepted int     `json:"accepted"`          // URLs that the receiver has now
	Took     float64 `json:"took_ms,omitempty"` // until the acknowledgement was there, or sent
	Error    string  `json:"error,omitempty"`
}

// Exchange is an exchange of coordinates with another peer: the times at which questions and
// answers left and arrived at this peer, as T. The nth answer belongs to the nth question.
type Exchange struct {
	Header
	Peer string `json:"peer"`
	// ID is the same at both peers.
	ID    int64 `json:"id"`
	Asked bool  `json:"asked,omitempty"` // this peer asked, the other one answered
	// Sent are the times of the questions if this peer asked, else those of the answers.
	Sent     []int64    `json:"sent"`
	Received []int64    `json:"received"`
	RTT      float64    `json:"rtt_ms"` // the minimum of those measured here
	At       Coordinate `json:"at"`     // of the other peer
}

// Mark says what an experiment did to a peer. Peers do not write it.
type Mark struct {
	Header
	Text string `json:"text"`
	Peer string `json:"peer,omitempty"`
}

// Lost says that events are missing before it: the disk was too slow, or could not be written.
type Lost struct {
	Header
	Count int64 `json:"count"`
}

func (*Start) kind() Kind    { return "start" }
func (*Fetch) kind() Kind    { return "fetch" }
func (*Page) kind() Kind     { return "page" }
func (*Sample) kind() Kind   { return "sample" }
func (*State) kind() Kind    { return "state" }
func (*Lease) kind() Kind    { return "lease" }
func (*Decision) kind() Kind { return "decision" }
func (*Review) kind() Kind   { return "review" }
func (*Message) kind() Kind  { return "message" }
func (*Batch) kind() Kind    { return "batch" }
func (*Exchange) kind() Kind { return "exchange" }
func (*Mark) kind() Kind     { return "mark" }
func (*Lost) kind() Kind     { return "lost" }
