package owner

import (
	"context"
	"net/netip"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/hostmove"
	"peerd/store"
)

// Package hostmove decides when hosts move. This file connects it to the subnets.

// hosts is the part of a Manager that moves single hosts; it implements hostmove.Network and, with
// the resolver, hostmove.Subnets.
type hosts struct {
	*table
	claimer      *claimer
	replicas     *replicas
	reachability *reachability
	hostMoves    *hostmove.Monitor
}

// subnetsForMoves implements hostmove.Subnets.
type subnetsForMoves struct {
	*hosts
	resolver *resolver
}

// RefreshOwner implements hostmove.Subnets.
func (s subnetsForMoves) RefreshOwner(
	ctx context.Context, p netip.Prefix, owner peer.ID, denied bool,
) (changed bool, err error) {
	return s.resolver.RefreshOwner(ctx, p, owner, denied)
}

// watch creates the hostmove.Monitor.
func (h *hosts) watch(r *resolver) (err error) {
	h.hostMoves, err = hostmove.New(hostmove.Config{
		Self: h.cfg.Self, DB: h.cfg.DB, Subnets: subnetsForMoves{h, r}, Homes: h.cfg.Homes,
		Leases: h.cfg.Leases, Network: h, Guard: h.cfg.Guard, Transferrer: h.cfg.Transferrer,
		Pace: h.cfg.HostMoves, Tick: h.cfg.Tick, Logger: h.log,
	})
	return err
}

// suspectHost is Manager.SuspectHost.
func (h *hosts) suspectHost(host string, why store.Outcome) {
	if why == store.OutcomeDenied {
		h.reachability.silent(host, 0)
		return
	}
	h.reachability.silent(host, h.cfg.Times.Unreachable)
	h.hostMoves.Suspect(host)
}

// Online implements hostmove.Network.
func (h *hosts) Online() bool { return h.cfg.Limiter.Online() }

// Lookup implements hostmove.Network.
func (h *hosts) Lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	return h.cfg.ResolveFresh(ctx, host)
}

// Reach implements hostmove.Network.
func (h *hosts) Reach(
	ctx context.Context, host string, addrs []netip.Addr,
) (netip.Addr, bool) {
	return h.reachability.reachNow(ctx, host, addrs)
}

// Route implements hostmove.Subnets.
func (h *hosts) Route(found []store.Pending) error { return h.cfg.Outbox.Route(found) }

// Lease implements hostmove.Subnets.
func (h *hosts) Lease(p netip.Prefix) (sealed []byte, ours bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.subnets[p]; s != nil {
		return s.sealed, true
	}
	return nil, false
}

// Enter implements hostmove.Subnets.
func (h *hosts) Enter(p netip.Prefix) (leave func(), ok bool) {
	h.mu.Lock()
	s := h.subnets[p]
	h.mu.Unlock()
	if s == nil || !h.enter(s) {
		return nil, false
	}
	return func() { h.exit(s) }, true
}

// Safe implements hostmove.Subnets.
func (h *hosts) Safe(ctx context.Context, p netip.Prefix) bool {
	return len(h.replicas.Safe(ctx, []netip.Prefix{p})) == 0
}

// Claim implements hostmove.Subnets.
func (h *hosts) Claim(ctx context.Context, p netip.Prefix) error { return h.claimer.Claim(ctx, p) }

// Reroute implements hostmove.Subnets.
func (h *hosts) Reroute(host store.Host) error { return h.reroute(host) }
