package overlay

import (
	"fmt"

	"github.com/libp2p/go-libp2p/core/protocol"
)

// Namespaces of DHT records. A record's key is "/" + namespace + "/" + rest.
// They carry no network identifier: the DHT's protocol prefix separates
// networks already.
const (
	// LeaseNamespace holds who owns a subnet (package lease).
	LeaseNamespace = "peerd-lease"
	// HomeNamespace holds which subnet a host name belongs to (package home).
	HomeNamespace = "peerd-home"
)

// maxNetwork bounds a network identifier. Bytes.
const maxNetwork = 96

// Names are the identifiers of one network. The zero value is of no network;
// NewNames makes a usable one.
type Names struct {
	network string
}

// NewNames returns the identifiers of the network with the given identifier,
// which is 1 to 96 letters, digits, dots, hyphens and underscores.
func NewNames(network string) (Names, error) {
	if network == "" || len(network) > maxNetwork {
		return Names{}, fmt.Errorf("overlay: network identifier has %d bytes, want 1 to %d", len(network), maxNetwork)
	}
	for _, c := range []byte(network) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && c != '-' && c != '_' && c != '.' {
			return Names{}, fmt.Errorf("overlay: network identifier %q has a %q, want letters, digits, '.', '-', '_'", network, c)
		}
	}
	return Names{network: network}, nil
}

// Network is the identifier itself.
func (n Names) Network() string { return n.network }

// Prefix is what the DHT builds its protocol from.
func (n Names) Prefix() protocol.ID { return protocol.ID("/peerd/" + n.network) }

// DHT is the protocol that every member of the network answers.
func (n Names) DHT() protocol.ID { return n.Prefix() + "/kad/1.0.0" }

// Gossip is the protocol of gossipsub.
func (n Names) Gossip() protocol.ID { return n.Prefix() + "/meshsub/1.2.0" }

// Coords is the protocol that measures round trips and exchanges coordinates
// and beacons (package peers).
func (n Names) Coords() protocol.ID { return n.Prefix() + "/coords/2.0.0" }

// Carry is the protocol that moves one host to another owner (package carry).
func (n Names) Carry() protocol.ID { return n.Prefix() + "/carry/1.0.0" }

// Nearest is the protocol that asks whom a peer knows near a web server
// (package nearest).
func (n Names) Nearest() protocol.ID { return n.Prefix() + "/nearest/1.0.0" }

// Batch is the protocol that hands URLs to the owner of their subnet.
func (n Names) Batch() protocol.ID { return n.Prefix() + "/batch/1.0.0" }

// Estimate is the protocol that asks a peer to fetch one URL now.
func (n Names) Estimate() protocol.ID { return n.Prefix() + "/estimate/2.0.0" }

// Handover is the protocol that moves a subnet to its new owner.
func (n Names) Handover() protocol.ID { return n.Prefix() + "/handover/1.0.0" }

// Witness is the protocol by which an owner is heard by its witnesses, and
// candidates for a takeover ask for their votes (package witness).
func (n Names) Witness() protocol.ID { return n.Prefix() + "/witness/1.0.0" }

// Shadow is the protocol that keeps copies of subnets at other peers.
func (n Names) Shadow() protocol.ID { return n.Prefix() + "/shadow/1.0.0" }

// Copies is the protocol that asks a peer which copies of subnets it keeps (package
// shadow).
func (n Names) Copies() protocol.ID { return n.Prefix() + "/copies/1.0.0" }

// Atlas is the topic on which owners tell which subnets they have been given
// for good (package atlas).
func (n Names) Atlas() string { return "/peerd/" + n.network + "/atlas/1" }

// Beacons is what the beacons of this network are sealed for (package peers).
func (n Names) Beacons() string { return "/peerd/" + n.network + "/beacons/1" }
