package join

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/node"
	"peerd/node/config"
	"peerd/overlay"
	"peerd/overlay/admission"
	"peerd/store"
)

// ErrProfile is returned if a peer sent another profile than the invitation names.
var ErrProfile = errors.New("the profile is not the one of the invitation")

// Found makes home the first peer of the network with profile p, and saves the profile there. In
// a network that is not open the peer becomes the founder. Its errors are those of
// config.Profile.Validate and config.Home.SaveNetwork, and node.ErrOtherNetwork.
func Found(home config.Home, p config.Profile) (config.Profile, error) {
	if !p.AdmissionOpen() {
		self, err := home.PeerID()
		if err != nil {
			return p, err
		}
		if !slices.Contains(p.Founders, self.String()) {
			p.Founders = append(p.Founders, self.String())
		}
	}
	if err := p.Validate(); err != nil {
		return p, err
	}
	if err := checkHome(home, p.NetworkID()); err != nil {
		return p, err
	}
	return p, home.SaveNetwork(p, nil)
}

// checkHome returns why the peer in home could not run with the rules that are to be saved there.
func checkHome(home config.Home, network string) error {
	c, err := home.Load()
	if err != nil {
		return err
	}
	if file := home.Path(c.Profile); c.Profile != "" && file != home.ProfileFile() {
		return fmt.Errorf("%s has profile = %q, which is used in place of the rules of %s; "+
			"remove that line first", home.ConfigFile(), c.Profile, network)
	}
	old, profileErr := config.LoadProfile(home.ProfileFile())
	if profileErr == nil && old.NetworkID() != network {
		return fmt.Errorf("%s: %w", home.Dir, config.ErrOtherProfile)
	}
	err = node.CheckNetwork(home, network)
	if errors.Is(err, store.ErrLocked) && profileErr == nil {
		return nil // by the peer, which may get a new membership while it runs
	}
	return err
}

// Check returns what is wrong with the rules of a network that is to be founded. It needs no home,
// so that none is created for wrong rules. Its errors are those of config.Profile.Validate.
func Check(p config.Profile) error {
	if !p.AdmissionOpen() { // Found adds the founder; any peer will do here
		_, public, err := crypto.GenerateEd25519Key(rand.Reader)
		if err != nil {
			return err
		}
		founder, err := peer.IDFromPublicKey(public)
		if err != nil {
			return err
		}
		p.Founders = append(slices.Clone(p.Founders), founder.String())
	}
	return p.Validate()
}

// Terms of an invitation; see admission.Invitation.
type Terms = admission.Invitation

// Invite returns an invitation to the network p of the peer in home. addrs are multiaddrs of that
// peer, with its ID; t lacks ID, Network and Issuer, and is not used in an open network. The error
// matches admission.ErrMayNotInvite if the peer may not invite others on these terms.
func Invite(home config.Home, p config.Profile, addrs []string, t Terms) (Line, error) {
	l := Line{Network: p.NetworkID(), Digest: p.Digest()}
	key, err := home.Key()
	if err != nil {
		return l, err
	}
	self, err := peer.IDFromPrivateKey(key)
	if err != nil {
		return l, err
	}
	info := peer.AddrInfo{ID: self}
	for _, text := range addrs {
		a, err := peer.AddrInfoFromString(text)
		if err != nil || a.ID != self || len(a.Addrs) == 0 {
			return l, fmt.Errorf("%q is not an address of this peer with /p2p/%s", text, self)
		}
		info.Addrs = append(info.Addrs, a.Addrs...)
	}
	if len(info.Addrs) == 0 {
		return l, errors.New("no address of this peer; start it, or give --addr")
	}
	info.Addrs = info.Addrs[:min(len(info.Addrs), maxAddrs)]
	l.Peers = []peer.AddrInfo{info}
	rules := p.AdmissionRules()
	if rules.Open() {
		return l, nil
	}
	if err := rules.MayInvite(self, t.Peer != ""); err != nil {
		return l, err
	}
	t.Network = rules.Network
	l.Invitation, err = admission.NewInvitation(key, t)
	return l, err
}

// Join makes the peer in home a member of the network of l: it asks the peers in l for the
// profile and, if the network is not open, for a membership, checks both, and saves them in home
// with the bootstrap addresses. It changes nothing in home if it fails. The error matches
// admission.ErrRefused if a peer refused, ErrProfile if it sent another profile, and
// config.ErrOtherProfile or node.ErrOtherNetwork for a home of another network.
func Join(ctx context.Context, home config.Home, l Line) (config.Profile, error) {
	key, err := home.Key()
	if err != nil {
		return config.Profile{}, err
	}
	self, err := peer.IDFromPrivateKey(key)
	if err != nil {
		return config.Profile{}, err
	}
	// An invitation that is used cannot be used again by the peer of another home.
	if err := checkHome(home, l.Network); err != nil {
		return config.Profile{}, err
	}
	c := overlay.DefaultConfig()
	c.Key, c.Network, c.Bootstrap = key, l.Network, l.Peers
	c.UserAgent = "peerd/" + config.Version
	answer, err := overlay.AskToJoin(ctx, c, l.Invitation)
	if err != nil {
		return config.Profile{}, fmt.Errorf("join %s: %w", l.Network, err)
	}
	p, err := config.ParseProfile("profile of "+l.Network, answer.Profile)
	switch {
	case err != nil:
		return p, fmt.Errorf("join %s: %w: %w", l.Network, ErrProfile, err)
	case p.Digest() != l.Digest || p.NetworkID() != l.Network:
		return p, fmt.Errorf("join %s: %w", l.Network, ErrProfile)
	}
	if err := p.AdmissionRules().Check(self, answer.Membership); err != nil {
		return p, fmt.Errorf("join %s: %w", l.Network, err)
	}
	p.Bootstrap = bootstrap(l, answer.Peers)
	return p, home.SaveNetwork(p, answer.Membership)
}

// bootstrap returns the addresses in l and those that a peer has told, each once.
func bootstrap(l Line, told []string) (all []string) {
	for _, p := range l.Peers {
		addrs, _ := peer.AddrInfoToP2pAddrs(&p) // the IDs are valid
		for _, a := range addrs {
			all = append(all, a.String())
		}
	}
	for _, a := range told {
		if !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all
}
