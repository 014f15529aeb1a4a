package lease

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/overlay/record"
	"peerd/store"
)

// Why a record is refused; besides these there are the errors of package record.
var (
	// ErrSubnet: not a canonical IPv4 /24 or IPv6 /48.
	ErrSubnet = errors.New("lease: not an IPv4 /24 or IPv6 /48 in canonical form")
	// ErrSigner: signed by another than the record names.
	ErrSigner = record.ErrSigner
	// ErrEpoch: zero, above MaxEpoch, or a grant of epoch 1.
	ErrEpoch = errors.New("lease: impossible epoch")
	// ErrTimes: before 1970, ends before it begins, or lasts longer than MaxTTL.
	ErrTimes = record.ErrTime
	// ErrProxy: the proxy coordinate is not finite or out of bounds.
	ErrProxy = errors.New("lease: impossible proxy coordinate")
	// ErrEvidence: missing above epoch 1, superfluous at it, of two kinds at once,
	// or not what the owner signed.
	ErrEvidence = errors.New("lease: evidence does not fit the epoch")
	// ErrChain: the steps before the lease do not follow from each other, or are missing.
	ErrChain = errors.New("lease: the steps before it do not fit")
	// ErrNetwork: a record of another network.
	ErrNetwork = record.ErrNetwork
	// ErrGrant: not the one for this owner, epoch and subnet.
	ErrGrant = errors.New("lease: grant does not fit")
	// ErrWitnessSet: a witness set with too many members, with its owner among them, or with
	// members out of order.
	ErrWitnessSet = errors.New("lease: impossible witness set")
	// ErrVote: a vote that could not have been asked for.
	ErrVote = errors.New("lease: impossible vote")
	// ErrTakeover: votes missing or not for this step, or the last lease not of
	// the epoch before, or the silence too short.
	ErrTakeover = errors.New("lease: takeover does not fit")
	// ErrFuture: issued more than Skew ahead of now.
	ErrFuture = errors.New("lease: issued in the future")
	// ErrStale: expired longer than Grace ago.
	ErrStale = errors.New("lease: expired too long ago")
)

const maxNetwork = 96 // bytes, as in package overlay

const maxDims = 16 // of a proxy's coordinate; bounds the arithmetic, not the choice

// CheckTime tells whether l is acceptable at now: nil, ErrFuture or ErrStale.
func (l Lease) CheckTime(now time.Time) error {
	if ahead := l.Issued.Sub(now); ahead > Skew {
		return fmt.Errorf("%w: by %v", ErrFuture, ahead)
	}
	if late := now.Sub(l.Expires); late > Grace {
		return fmt.Errorf("%w: %v", ErrStale, late)
	}
	return nil
}

// check tells whether l could be a lease at any time, evidence included.
func (l Lease) check() error {
	if err := l.checkBody(); err != nil {
		return err
	}
	if err := l.checkLinks(); err != nil {
		return err
	}
	if err := l.checkReceipts(); err != nil {
		return err
	}
	return l.checkEvidence()
}

// checkBody tells the same of all but the evidence.
func (l Lease) checkBody() error {
	if err := checkNames(l.Subnet, l.Owner, l.Epoch); err != nil {
		return err
	}
	if err := record.CheckMillis(l.Issued); err != nil {
		return err
	}
	if d := l.Expires.Sub(l.Issued); d <= 0 || d > MaxTTL {
		return fmt.Errorf("%w: lasts %v", ErrTimes, d)
	}
	if len(l.Network) > maxNetwork {
		return fmt.Errorf("%w: %d bytes", ErrNetwork, len(l.Network))
	}
	if l.Epoch == 1 { // above it, checkLinks
		if err := l.link().check(); err != nil {
			return err
		}
	} else if !l.Claimed.IsZero() {
		return fmt.Errorf("%w: a claim of epoch %d", ErrChain, l.Epoch)
	}
	return checkProxy(l.Proxy)
}

// checkEvidence tells whether what is shown for this epoch is enough; see the
// package comment for what it proves.
func (l Lease) checkEvidence() error {
	granted, taken := len(l.Grant) > 0, l.Takeover != nil
	switch {
	case l.Epoch == 1 && (granted || taken):
		return fmt.Errorf("%w: there is none at epoch 1", ErrEvidence)
	case l.Epoch == 1:
		return nil
	case granted && taken:
		return fmt.Errorf("%w: both a grant and a takeover", ErrEvidence)
	case granted:
		return l.checkGrant()
	case taken:
		return l.checkTakeover()
	}
	return fmt.Errorf("%w: none at epoch %d", ErrEvidence, l.Epoch)
}

func (l Lease) checkGrant() error {
	g, err := OpenGrant(l.Grant)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrGrant, err)
	}
	switch {
	case g.Subnet != l.Subnet:
		return fmt.Errorf("%w: of subnet %v", ErrGrant, g.Subnet)
	case g.Epoch != l.Epoch:
		return fmt.Errorf("%w: for epoch %d", ErrGrant, g.Epoch)
	case g.From != l.before().Owner || g.Ended != l.Prev():
		return fmt.Errorf("%w: by %v, of another step than the one before", ErrGrant, g.From)
	case g.To != l.Owner:
		return fmt.Errorf("%w: to %v", ErrGrant, g.To)
	case !l.Issued.IsZero() && g.Issued.Sub(l.Issued) > Skew:
		return fmt.Errorf("%w: issued after the lease", ErrGrant)
	}
	return nil
}

// Check tells whether g could be a grant.
func (g Grant) Check() error {
	if err := checkNames(g.Subnet, g.From, g.Epoch); err != nil {
		return err
	}
	if err := g.To.Validate(); err != nil {
		return fmt.Errorf("%w: invalid successor: %w", ErrGrant, err)
	}
	if g.Epoch < 2 {
		return fmt.Errorf("%w: a grant of epoch %d", ErrEpoch, g.Epoch)
	}
	return record.CheckMillis(g.Issued)
}

func checkNames(subnet netip.Prefix, signer peer.ID, epoch uint64) error {
	if !subnet.IsValid() || store.SubnetOf(subnet.Addr()) != subnet {
		return fmt.Errorf("%w: %v", ErrSubnet, subnet)
	}
	if err := signer.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrSigner, err)
	}
	if epoch == 0 || epoch > MaxEpoch {
		return fmt.Errorf("%w: %d", ErrEpoch, epoch)
	}
	return nil
}

func checkProxy(p *coords.Proxy) error {
	if p == nil {
		return nil
	}
	if len(p.At.Vec) > maxDims {
		return fmt.Errorf("%w: %d dimensions", ErrProxy, len(p.At.Vec))
	}
	if err := p.Validate(len(p.At.Vec)); err != nil {
		return fmt.Errorf("%w: %w", ErrProxy, err)
	}
	return nil
}
