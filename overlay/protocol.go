package overlay

import (
	"fmt"
	"strings"

	"github.com/libp2p/go-libp2p/core/protocol"
)

// Namespaces of DHT records. A record's key is "/" + namespace + "/" + rest.
// They do not contain the network's identifier, because the DHT's protocol prefix
// separates networks.
const (
	// LeaseNamespace holds the owners of subnets (package lease).
	LeaseNamespace = "peerd-lease"
	// HomeNamespace holds the home subnets of hosts (package home).
	HomeNamespace = "peerd-home"
)

// maxNetwork bounds a network identifier. Bytes.
const maxNetwork = 96

// Names are the identifiers of one network. The zero value belongs to no network;
// NewNames makes a usable one.
type Names struct {
	network string
}

// NewNames returns the identifiers of the network with the given identifier,
// which is 1 to 96 letters, digits, dots, hyphens and underscores.
func NewNames(network string) (Names, error) {
	if network == "" || len(network) > maxNetwork {
		return Names{}, fmt.Errorf("overlay: network identifier has %d bytes, want 1 to %d",
			len(network), maxNetwork)
	}
	for _, c := range []byte(network) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && c != '-' && c != '_' && c != '.' {
			return Names{}, fmt.Errorf(
				"overlay: network identifier %q has a %q, want letters, digits, '.', '-', '_'",
				network, c)
		}
	}
	return Names{network: network}, nil
}

// Network returns the network's identifier.
func (n Names) Network() string { return n.network }

// Prefix returns the prefix from which the DHT builds its protocol.
func (n Names) Prefix() protocol.ID { return protocol.ID("/peerd/" + n.network) }

// Protocols returns all protocols that peers serve on streams.
func (n Names) Protocols() []protocol.ID {
	return []protocol.ID{
		n.DHT(), n.Record(), n.Gossip(), n.Coords(), n.HostTransfer(), n.Nearest(), n.Batch(),
		n.Estimate(), n.Handover(), n.Heartbeat(), n.Witness(), n.Replica(), n.Copies(), n.Join(),
		n.Membership(), n.Search(), n.Trace(), n.Feed(), n.Mirror(), n.Plugin(),
	}
}

// Words returns a word for each of Protocols, such as "batch".
func (n Names) Words() map[protocol.ID]string {
	words := map[protocol.ID]string{}
	for _, p := range n.Protocols() {
		rest := strings.TrimPrefix(string(p), string(n.Prefix())+"/")
		words[p], _, _ = strings.Cut(rest, "/")
	}
	return words
}

// DHT returns the protocol that every member of the network serves.
func (n Names) DHT() protocol.ID { return n.Prefix() + dhtSuffix }

// dhtSuffix is what kad-dht appends to its prefix.
const dhtSuffix = "/kad/1.0.0"

// Record returns the protocol that reads a record from a peer that may hold it, or has it hold one
// (Values).
func (n Names) Record() protocol.ID { return n.Prefix() + "/record/1.0.0" }

// Gossip returns the protocol of gossipsub.
func (n Names) Gossip() protocol.ID { return n.Prefix() + "/meshsub/1.2.0" }

// Coords returns the protocol that measures round trips and exchanges coordinates
// and beacons (package peers).
func (n Names) Coords() protocol.ID { return n.Prefix() + "/coords/3.0.0" }

// HostTransfer returns the protocol that moves a host to another owner (package
// hosttransfer).
func (n Names) HostTransfer() protocol.ID { return n.Prefix() + "/host-transfer/1.0.0" }

// Nearest returns the protocol that asks a peer which peers it knows near a web server
// (package nearest).
func (n Names) Nearest() protocol.ID { return n.Prefix() + "/nearest/1.0.0" }

// Batch returns the protocol that sends URLs to the owner of their subnet (package
// outbox).
func (n Names) Batch() protocol.ID { return n.Prefix() + "/batch/1.0.0" }

// Estimate returns the protocol that asks a peer to fetch one URL now (package estimate).
func (n Names) Estimate() protocol.ID { return n.Prefix() + "/estimate/3.0.0" }

// Handover returns the protocol that moves a subnet to its new owner (package handover).
func (n Names) Handover() protocol.ID { return n.Prefix() + "/handover/2.0.0" }

// Heartbeat returns the protocol of heartbeats (package peers), with the promises of
// witnesses (package witness).
func (n Names) Heartbeat() protocol.ID { return n.Prefix() + "/heartbeat/2.0.0" }

// Witness returns the protocol of requests for the votes of witnesses (package witness).
func (n Names) Witness() protocol.ID { return n.Prefix() + "/witness/3.0.0" }

// Replica returns the protocol that keeps copies of subnets at other peers (package
// replica).
func (n Names) Replica() protocol.ID { return n.Prefix() + "/replica/2.0.0" }

// Copies returns the protocol that asks a peer which copies of subnets it keeps (package
// replica).
func (n Names) Copies() protocol.ID { return n.Prefix() + "/copies/1.0.0" }

// Join returns the protocol that gives a new peer the profile and, for an invitation, a
// membership (package admission). It is the only one that strangers are served, besides
// Membership.
func (n Names) Join() protocol.ID { return n.Prefix() + "/join/1.0.0" }

// Membership returns the protocol that shows this peer's membership (package admission).
// Peers of an open network do not serve it.
func (n Names) Membership() protocol.ID { return n.Prefix() + "/membership/1.0.0" }

// Search returns the protocol that searches the index of a peer (package search).
func (n Names) Search() protocol.ID { return n.Prefix() + "/search/1.0.0" }

// Trace returns the protocol that asks a peer what it knows of a URL (package trace).
func (n Names) Trace() protocol.ID { return n.Prefix() + "/trace/1.0.0" }

// Feed returns the protocol by which collectors follow the archive of a peer (package feed).
func (n Names) Feed() protocol.ID { return n.Prefix() + "/feed/1.0.0" }

// Mirror returns the protocol that keeps copies of the archive of a peer at others (package
// mirror).
func (n Names) Mirror() protocol.ID { return n.Prefix() + "/mirror/1.0.0" }

// Plugin returns the protocol by which plug-ins spread (package plugin).
func (n Names) Plugin() protocol.ID { return n.Prefix() + "/plugin/1.0.0" }

// OwnerMap returns the topic on which owners announce their decided subnets (package
// ownermap).
func (n Names) OwnerMap() string { return "/peerd/" + n.network + "/owner-map/2" }

// OptOuts returns the topic on which peers say that the opt-out of a web site has changed (package
// optout).
func (n Names) OptOuts() string { return "/peerd/" + n.network + "/opt-outs/1" }

// Topics returns all topics of gossip.
func (n Names) Topics() []string { return []string{n.OwnerMap(), n.OptOuts()} }

// Beacons returns the context for which beacons of this network are sealed (package
// peers).
func (n Names) Beacons() string { return "/peerd/" + n.network + "/beacons/2" }
