package owner

import (
	"context"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/overlay/estimate"
	"peerd/overlay/handover"
	"peerd/overlay/replica"
	"peerd/overlay/witness"
	"peerd/store"
)

// Frontier is the part of the crawler that holds our hosts; given by
// crawl/frontier. All but AddHost and Pause only touch memory, and none calls
// the Manager: it holds its lock meanwhile.
type Frontier interface {
	AddHost(name string, subnet netip.Prefix, addr netip.Addr, at time.Time) error
	Owns(host string) bool
	SetSerial(p netip.Prefix, on bool)
	BeginPause(p netip.Prefix)
	Pause(ctx context.Context, p netip.Prefix) error
	Resume(p netip.Prefix)
	Adopt(p netip.Prefix, hosts []store.Host, at time.Time)
	Drop(p netip.Prefix)
	SubnetLoad(p netip.Prefix) (hosts int, pending int64, inFlight int, nextAt time.Time)
}

// Outbox is told of pending URLs and of subnets with another owner. None of its methods calls the
// Manager.
type Outbox interface {
	// ResolveAgain is called when a subnet's owner has changed: URLs that wait for it must be
	// resolved again.
	ResolveAgain(netip.Prefix)
	// Announced is called when another peer says that it owns a subnet that is not this peer's. It
	// may be wrong.
	Announced(p netip.Prefix, owner peer.ID)
	// PendingAdded is called with the numbers of pending URLs by host that this package added.
	PendingAdded(byHost map[string]int)
	// Route puts URLs back that this peer must not crawl any more.
	Route([]store.Pending) error
}

// Directory is who there is; given by overlay/peers.
type Directory interface {
	// Candidates returns the peers that may own subnets, this one included.
	Candidates() []assign.Candidate
	// At returns a peer's coordinate without its load.
	At(peer string) (coords.Coordinate, bool)
}

// Holders knows who holds an address, by the data of the Internet registries; false if
// that is not known. It must answer from memory.
type Holders interface {
	Holder(netip.Addr) (string, bool)
}

// Estimator has another peer fetch one URL, or open a connection to its server. It is
// provided by estimate.Service and returns its errors.
type Estimator interface {
	Fetch(ctx context.Context, to peer.ID, sealed []byte, r store.FetchRequest) (store.FetchReport,
		error)
	Connect(ctx context.Context, to peer.ID, sealed []byte, r store.FetchRequest) (
		store.FetchReport, error)
}

// Sender hands a subnet over. It is provided by handover.Sender and returns its errors.
type Sender interface {
	Send(ctx context.Context, to peer.ID, o handover.Offer, grant func() ([]byte, error)) (
		lease []byte, err error)
	// SendGrant is Send to a peer that already has everything at o.Pos, while this one has
	// nothing.
	SendGrant(ctx context.Context, to peer.ID, o handover.Offer, grant func() ([]byte, error)) (
		lease []byte, err error)
}

// Witness decides whether an owner is alive; provided by witness.Service, which
// documents it.
type Witness interface {
	// QuorumLease reports whether this peer may act as an owner now. From memory.
	QuorumLease() (ok bool, until time.Time)
	// QuorumLeaseWithout is QuorumLease if some witnesses do not count. From memory.
	QuorumLeaseWithout(voters []peer.ID) (ok bool, until time.Time)
	// Retired returns when a witness set of this peer last ceased to be in force.
	Retired() time.Time
	// Strike has a witness replaced.
	Strike(peer.ID)
	// WitnessSet returns this peer's witness set, sealed; nil if there is none. From memory.
	WitnessSet() []byte
	// WitnessSetOf returns the witness set of another owner as known to other peers, sealed,
	// or nil.
	WitnessSetOf(ctx context.Context, owner peer.ID) []byte
	// RequestVotes collects the votes of a silent owner's witnesses.
	RequestVotes(ctx context.Context, owner peer.ID, set []byte, steps []witness.Proposal) (
		witness.Tally, error)
}

// Replicas keeps copies of our subnets at other peers, and of theirs here. It is
// provided by replica.Service, which documents it, and returns its errors.
type Replicas interface {
	// SetWitnessSet sends our witness set to the peers that keep copies.
	SetWitnessSet(set []byte)
	// Follow has a peer keep a copy until Unfollow.
	Follow(p netip.Prefix, to peer.ID, epoch uint64) error
	Unfollow(p netip.Prefix, to peer.ID, drop bool)
	State(p netip.Prefix, to peer.ID) replica.Follower
	// Await returns when a copy is in sync; it waits while its peer answers ErrLater. Flush
	// returns when copies hold what was committed before the call.
	Await(ctx context.Context, p netip.Prefix, to peer.ID) error
	Flush(ctx context.Context, p netip.Prefix, to ...peer.ID) error
	// Release stops all replication of a subnet of ours.
	Release(p netip.Prefix) error
	// Copies and Copy return the copies of other peers' subnets that are here.
	Copies() []replica.LocalCopy
	Copy(p netip.Prefix) (replica.LocalCopy, bool)
	// QueryCopies asks another peer which copies it keeps.
	QueryCopies(ctx context.Context, to peer.ID, ps []netip.Prefix) ([]replica.RemoteCopy, error)
	// ReportCopies tells an owner about copies kept here that it does not keep up to date.
	ReportCopies(ctx context.Context, owner peer.ID, ps []netip.Prefix) error
	// AskAgain has an owner repeat a request for a copy that was answered with ErrLater.
	AskAgain(owner peer.ID, p netip.Prefix, id uint64)
	// Pin keeps a complete copy of that epoch what it is until unpin.
	Pin(p netip.Prefix, epoch uint64) (unpin func(), ok bool)
	// Promote has fn make a copy ours, and ends it if that went well; Drop
	// deletes one, Demote makes one of what was ours, and Keep one of what another peer has
	// taken over.
	Promote(p netip.Prefix, fn func(pos store.LogPos) error) error
	Drop(p netip.Prefix) error
	Demote(p netip.Prefix, to peer.ID, epoch uint64, lease []byte, confirmed time.Time) error
	Keep(p netip.Prefix, to peer.ID, epoch uint64, lease []byte) error
}

var (
	_ Estimator = (*estimate.Service)(nil)
	_ Witness   = (*witness.Service)(nil)
	_ Replicas  = (*replica.Service)(nil)
	_ Sender    = (*handover.Sender)(nil)
)

// Resolve returns the addresses of a host; given by crawl/resolve. It returns
// an error that wraps *outbox.NameError when the name does not resolve.
type Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
