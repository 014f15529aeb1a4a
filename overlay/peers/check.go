package peers

import (
	"cmp"
	"context"
	"hash/fnv"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/semaphore"

	"peerd/internal/backoff"
	"peerd/internal/clock"
	"peerd/internal/order"
	"peerd/overlay/wire"
)

const (
	// maxChecks is how many peers are checked concurrently. As many may fail at the same time,
	// and checking a peer that does not answer takes some seconds.
	maxChecks = 8
	// helpersPerRound is how many other peers are asked in a round whether they reach a peer (k
	// in SWIM, section 4.1). maxHelpers bounds how many are asked if those do not answer.
	helpersPerRound = 3
	maxHelpers      = 6
	// In a network where beacons are pushed to all peers, a peer that is silent for
	// 1/silentPart of its lifetime is checked. In larger networks beacons may take that long to
	// arrive, and such checks would cost more than everything else; there, failures are
	// detected by exchanges and spread as suspicions.
	silentPart = 3
	// Pauses between checks of a peer. After a check in which only helpers reached it: from
	// vouchedPauseMin, doubled each time, to vouchedPauseMax. After an undecided check:
	// undecidedPause. After a check that it answered: from answeredPauseMin, doubled each time
	// for a peer that keeps answering and disconnecting, to answeredPauseMax.
	vouchedPauseMin  = 5 * time.Second
	vouchedPauseMax  = 5 * time.Minute
	undecidedPause   = 5 * time.Second
	answeredPauseMin = 2 * time.Second
	answeredPauseMax = 30 * time.Second
	// suspicionPause is the minimum time between two checks of a peer that are caused by
	// suspicions of others, because suspicions cost their sender nothing.
	suspicionPause = 20 * time.Second
	// missedTTL is how long a peer that did not answer counts as unreachable.
	missedTTL = 30 * time.Second
)

// checkState is the state of the checks of one peer. peerStates.mu guards it.
type checkState struct {
	checkAt      time.Time // when to check it; zero if no check is requested
	pausedUntil  time.Time // no check before, except after an event
	blockedUntil time.Time // no check before, not even after an event
	vouched      int       // successive checks in which only helpers reached it
	answers      int       // successive checks that it answered, each within a minute of the last
	checkedAt    time.Time // when the last check ended
	suspicionAt  time.Time // when a suspicion of another peer last requested a check
	checking     bool
	probe        *probe // the last probe or the one in progress
}

// checker finds out which peers are reachable.
type checker struct {
	*env
	self   *self
	states *peerStates
	intake *intake

	checks          *semaphore.Weighted
	indirect        *semaphore.Weighted // probes requested by other peers
	probeLimiter    wire.Limiter        // limits the probes of other peers
	indirectLimiter wire.Limiter        // limits those that are passed on
}

// requestCheck is Service.ReportUnreachable. An event, such as the end of a connection, does not
// wait for the pause after an earlier check.
func (k *checker) requestCheck(p peer.ID, event bool) {
	if _, known := k.dir.Get(p); !known || !k.dir.Alive(p) || k.dir.Hearsay(p) {
		return // its addresses are not known, it is suspect already, or it may not exist
	}
	now := time.Now()
	k.states.mu.Lock()
	st := k.states.of(p)
	switch {
	case event:
		st.checkAt = clock.Later(now, st.blockedUntil)
	case st.checkAt.IsZero() && !st.checking:
		st.checkAt = clock.Later(now, clock.Later(st.pausedUntil, st.blockedUntil))
	}
	k.states.mu.Unlock()
	k.wake()
}

// receiveSuspicions handles suspicions that another peer sent. If this peer itself is
// suspected, it makes a beacon soon.
func (k *checker) receiveSuspicions(suspicions []suspicion) {
	for _, d := range suspicions {
		switch {
		case d.Peer == k.cfg.Host.ID():
			k.self.suspected.Store(true)
		case k.dir.isNewSuspicion(d) && k.acceptSuspicion(d.Peer):
			k.requestCheck(d.Peer, false)
		}
	}
}

// acceptSuspicion reports whether a suspicion of another peer may cause a check of p, and if so
// records it.
func (k *checker) acceptSuspicion(p peer.ID) bool {
	now := time.Now()
	k.states.mu.Lock()
	defer k.states.mu.Unlock()
	st := k.states.of(p)
	if now.Sub(st.suspicionAt) < suspicionPause {
		return false
	}
	st.suspicionAt = now
	return true
}

// requestChecks requests checks of the peers that have just disconnected and of those that have
// been silent for long. It is limited to the peers to which this one stays connected.
func (k *checker) requestChecks(c contacts, disconnected []peer.ID, connected map[peer.ID]bool) {
	for _, p := range disconnected {
		if c.fullMesh || c.isPartner[p] {
			k.requestCheck(p, true)
		}
	}
	if c.numKnown >= maxPush {
		return
	}
	for _, b := range k.dir.silent(silentPart) {
		if c.fullMesh || connected[b.Peer] {
			k.requestCheck(b.Peer, false)
		}
	}
}

// dueChecks returns the peers to check now.
func (k *checker) dueChecks(now time.Time) (picked []peer.ID) {
	k.states.mu.Lock()
	defer k.states.mu.Unlock()
	for p, st := range k.states.all {
		if st.checkAt.IsZero() || st.checking || now.Before(st.checkAt) {
			continue
		}
		if !k.checks.TryAcquire(1) {
			break
		}
		st.checking, st.checkAt = true, time.Time{}
		picked = append(picked, p)
	}
	return picked
}

// checkResult is the result of a check.
type checkResult int

const (
	checkUndecided   checkResult = iota // no helper answered: this peer may be cut off
	checkAnswered                       // the peer answered
	checkVouched                        // a helper reaches the peer
	checkUnreachable                    // no helper reaches the peer
)

// check finds out whether p is reachable and records the result.
func (k *checker) check(ctx context.Context, p peer.ID) {
	begin := time.Now()
	v := checkAnswered
	if k.dir.Alive(p) && k.probe(ctx, p) != nil {
		v = k.probeIndirectly(ctx, p)
	}
	now := time.Now()
	k.states.mu.Lock()
	st := k.states.of(p)
	st.checking = false
	switch v {
	case checkUndecided:
		st.checkAt = now.Add(backoff.Jitter(undecidedPause))
	case checkAnswered:
		if st.answers++; now.Sub(st.checkedAt) > time.Minute {
			st.answers = 0
		}
		st.vouched, st.pausedUntil, st.blockedUntil = 0, now,
			now.Add(backoff.Double(answeredPauseMin, answeredPauseMax, st.answers))
	case checkVouched:
		pause := backoff.Double(vouchedPauseMin, vouchedPauseMax, st.vouched)
		st.pausedUntil = now.Add(backoff.Jitter(pause))
		st.blockedUntil = now.Add(answeredPauseMin)
		st.vouched++
	case checkUnreachable: // nothing to schedule
	}
	st.checkedAt = now
	k.states.mu.Unlock()
	if v == checkUnreachable && ctx.Err() == nil && k.dir.Suspect(p, begin) {
		k.log.Info("suspected peer: neither this peer nor helpers reach it", "peer", p)
	}
}

// probeIndirectly asks other peers whether they reach p, which this peer does not.
func (k *checker) probeIndirectly(ctx context.Context, p peer.ID) checkResult {
	helpers, others := k.helpers(p)
	need := 1
	if k.dir.mostMissing() {
		// This peer may have lost its network, or most of it. Then one helper that agrees
		// proves nothing.
		need = 2
	}
	if others == 0 && need == 1 && !k.dir.deadMissing() {
		return checkUnreachable // a network of two: either way this peer is alone
	}
	answered := 0
	helpers = helpers[:min(len(helpers), maxHelpers)]
	for len(helpers) > 0 && answered < need {
		batch := helpers[:min(len(helpers), helpersPerRound)]
		helpers = helpers[len(batch):]
		n, reached := k.probeThrough(ctx, batch, p)
		if reached {
			return checkVouched
		}
		answered += n
	}
	if ctx.Err() != nil || answered < need {
		return checkUndecided
	}
	return checkUnreachable
}

// helpers returns the peers to ask about p: connected peers that have not failed themselves.
// The order is the same at all peers, so peers that check p at the same time ask the same
// helpers, which probe only once for all of them. others is the number of present peers other
// than p.
func (k *checker) helpers(p peer.ID) (helpers []peer.ID, others int) {
	for _, b := range k.dir.All() {
		if b.Peer == p {
			continue
		}
		others++
		if !k.dir.isMissing(b.Peer) && len(k.cfg.Host.Network().ConnsToPeer(b.Peer)) > 0 {
			helpers = append(helpers, b.Peer)
		}
	}
	rank := func(q peer.ID) uint64 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(p)) // never fails
		_, _ = h.Write([]byte(q))
		x := h.Sum64() // FNV's last bytes hardly reach the upper bits
		x = (x ^ x>>33) * 0xff51afd7ed558ccd
		return x ^ x>>33
	}
	order.SortFunc(helpers, func(a, b peer.ID) int { return cmp.Compare(rank(a), rank(b)) })
	return helpers, others
}
