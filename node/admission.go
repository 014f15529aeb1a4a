package node

import (
	"fmt"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay"
	"peerd/overlay/admission"
)

// setAdmission completes c with who belongs to the network, and checks that this peer does.
func (n *Node) setAdmission(c *overlay.Config) error {
	c.Admission = n.opts.Profile.AdmissionRules()
	if n.opts.Alone {
		c.Admission = admission.Rules{}
	}
	if c.Admission.Open() {
		return nil
	}
	m, err := n.opts.Home.Membership()
	if err != nil {
		return err
	}
	self, err := peer.IDFromPrivateKey(c.Key)
	if err != nil {
		return err
	}
	if err := c.Admission.Check(self, m); err != nil {
		return fmt.Errorf("network %s: %w; join it with an invitation: peerd join", c.Network, err)
	}
	c.Membership = m
	return nil
}

// newDoor returns what answers new peers.
func (n *Node) newDoor(c overlay.Config) (*admission.Door, error) {
	p := n.opts.Profile
	p.Bootstrap = nil // it is told separately, and only what is known to work
	text, err := p.Text()
	if err != nil {
		return nil, err
	}
	return &admission.Door{
		Host: n.net.Strangers, Protocol: n.net.Names.Join(), Rules: c.Admission, Profile: text,
		Issuer: &admission.Issuer{Rules: c.Admission, Key: c.Key,
			File: n.opts.Home.InvitationsFile(), Clock: n.opts.clock()},
		Peers: n.net, Logger: n.log,
	}, nil
}
