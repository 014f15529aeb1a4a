package admin

import (
	"context"
	"time"
)

// Node is the peer that a server looks into. All methods are called from many
// goroutines at once and must not wait for the network, Seed's context apart.
type Node interface {
	// Status returns the state of the peer.
	Status() Status
	// Peers returns the other peers, in a stable order.
	Peers() []Peer
	// Subnets returns the subnets owned or about to be, in a stable order.
	Subnets() []Subnet
	// Queue returns the hosts with URLs waiting here, in a stable order.
	Queue() []Host
	// Seed puts URLs into the crawl; what was accepted is on disk when it
	// returns. URLs that are not taken are no error.
	Seed(ctx context.Context, urls []string) (SeedResult, error)
	// Links calls yield for every page fetched by this peer and ends with the
	// first error, its own or that of yield.
	Links(ctx context.Context, yield func(Link) error) error
	// Stop asks for a clean stop and returns at once. The admin server is to be
	// stopped last: who waits for the end watches its file vanish.
	Stop()
	// Leave asks for a clean stop that hands everything over first, for at most
	// limit, and calls tell until that is over, ctx ends or tell returns an
	// error: it goes on all the same then. Later calls only watch; Stop cuts it
	// short.
	Leave(ctx context.Context, limit time.Duration, tell func(Drain) error) error
}
