package owner

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/overlay/estimate"
	"peerd/overlay/handover"
	"peerd/overlay/shadow"
	"peerd/overlay/witness"
	"peerd/store"
)

// Frontier is the part of the crawler that holds our hosts; given by
// crawl/frontier. All but AddHost and Pause only touch memory, and none calls
// the Manager: it holds its lock meanwhile.
type Frontier interface {
	AddHost(name string, subnet netip.Prefix, addr netip.Addr) error
	Owns(host string) bool
	Single(p netip.Prefix, on bool)
	Shut(p netip.Prefix)
	Pause(ctx context.Context, p netip.Prefix) error
	Resume(p netip.Prefix)
	Adopt(p netip.Prefix, hosts []store.Host, at time.Time)
	Drop(p netip.Prefix)
	Load(p netip.Prefix) (hosts int, pending int64, inFlight int, nextAt time.Time)
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

// Estimator has one URL fetched by another peer, or a connection opened to its
// server; given by estimate.Service, whose errors it returns.
type Estimator interface {
	Fetch(ctx context.Context, to peer.ID, sealed []byte, r store.FetchRequest) (store.FetchReport, error)
	Connect(ctx context.Context, to peer.ID, sealed []byte, r store.FetchRequest) (store.FetchReport, error)
}

// Sender hands a subnet over; given by handover.Sender, whose errors it
// returns.
type Sender interface {
	Send(ctx context.Context, to peer.ID, o handover.Offer, grant func() ([]byte, error)) (lease []byte, err error)
	// Give is Send to a peer that has all of it, at o.Pos, while this one has nothing.
	Give(ctx context.Context, to peer.ID, o handover.Offer, grant func() ([]byte, error)) (lease []byte, err error)
}

// Witness is the panel that says whether an owner is there; given by
// witness.Service, whose comments say more.
type Witness interface {
	// Right says whether this peer may act as an owner now. From memory.
	Right() (ok bool, until time.Time)
	// Panel returns this peer's panel, sealed; nil while there is none. From memory.
	Panel() []byte
	// PanelOf returns the panel of another owner that others know, sealed, or nil.
	PanelOf(ctx context.Context, owner peer.ID) []byte
	// Ask collects the votes of a silent owner's witnesses.
	Ask(ctx context.Context, owner peer.ID, panel []byte, steps []witness.Step) (witness.Tally, error)
}

// Replicas keeps copies of our subnets at other peers, and of theirs here;
// given by shadow.Service, whose comments say more and whose errors it returns.
type Replicas interface {
	// SetPanel has those who keep copies told our panel.
	SetPanel(panel []byte)
	// Follow has a peer keep a copy until Unfollow.
	Follow(p netip.Prefix, to peer.ID, o shadow.Open) error
	Unfollow(p netip.Prefix, to peer.ID, drop bool)
	State(p netip.Prefix, to peer.ID) shadow.Follower
	// Await returns when a copy is in sync, Flush when copies hold what was
	// committed before the call.
	Await(ctx context.Context, p netip.Prefix, to peer.ID) error
	Flush(ctx context.Context, p netip.Prefix, to ...peer.ID) error
	// Leave ends all that is done for a subnet of ours.
	Leave(p netip.Prefix) error
	// Held and Copy return the copies of others' subnets that are here.
	Held() []shadow.Held
	Copy(p netip.Prefix) (shadow.Held, bool)
	// Ask asks another peer which copies it keeps.
	Ask(ctx context.Context, to peer.ID, ps []netip.Prefix) ([]shadow.Copy, error)
	// Remind tells the owner of copies kept here that it does not follow them up.
	Remind(ctx context.Context, owner peer.ID, ps []netip.Prefix) error
	// Pin keeps a complete copy of that epoch what it is until unpin.
	Pin(p netip.Prefix, epoch uint64) (unpin func(), ok bool)
	// PromoteBy has fn make a copy ours, and ends it if that went well; Forget
	// sweeps one away, Demote makes one of what was ours.
	PromoteBy(p netip.Prefix, fn func(pos store.TailPos) error) error
	Forget(p netip.Prefix) error
	Demote(p netip.Prefix, to peer.ID, epoch uint64, lease []byte) error
}

var (
	_ Estimator = (*estimate.Service)(nil)
	_ Witness   = (*witness.Service)(nil)
	_ Replicas  = (*shadow.Service)(nil)
	_ Sender    = (*handover.Sender)(nil)
)

// Resolve returns the addresses of a host; given by crawl/resolve. It returns
// an error that wraps ErrNoHost when there is none for sure.
type Resolve func(ctx context.Context, host string) ([]netip.Addr, error)

// ErrNoHost says that a host name has no address.
var ErrNoHost = errors.New("owner: no such host")
