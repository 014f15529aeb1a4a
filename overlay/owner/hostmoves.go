package owner

import (
	"context"
	"net/netip"

	"peerd/overlay/hostmove"
	"peerd/store"
)

// Package hostmove decides when hosts move. This file connects it to the subnets.

// hosts is the part of a Manager that moves single hosts; it implements hostmove.Subnets.
type hosts struct {
	*table
	claimer      *claimer
	reachability *reachability
	rerouter     *rerouter
	hostMoves    *hostmove.Monitor
}

// watch creates the hostmove.Monitor.
func (h *hosts) watch() (err error) {
	h.hostMoves, err = hostmove.New(hostmove.Config{
		Self: h.cfg.Self, DB: h.cfg.DB, Subnets: h, Homes: h.cfg.Homes,
		Leases: h.cfg.Leases, Lookup: h.cfg.ResolveFresh,
		Allowed: h.cfg.Allowed, Reach: h.reachability.reachNow, Transferrer: h.cfg.Transferrer,
		Route: h.cfg.Outbox.Route, Pace: h.cfg.HostMoves, Online: h.cfg.Online, Tick: h.cfg.Tick,
		Logger: h.log,
	})
	return err
}

// SuspectHost is Manager.SuspectHost.
func (h *hosts) SuspectHost(host string, why store.Outcome) {
	if why == store.OutcomeDenied {
		h.reachability.silent(host, 0)
		return
	}
	h.reachability.silent(host, h.cfg.Times.Unreachable)
	h.hostMoves.Suspect(host)
}

// MovingHosts is Manager.MovingHosts.
func (h *hosts) MovingHosts() int { return h.hostMoves.Moving() }

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
	return s.adding.Done, true
}

// Claim implements hostmove.Subnets.
func (h *hosts) Claim(ctx context.Context, p netip.Prefix) error { return h.claimer.Claim(ctx, p) }

// Reroute implements hostmove.Subnets.
func (h *hosts) Reroute(host store.Host) error { return h.rerouter.reroute(host) }
