package owner

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords/assign"
	"peerd/internal/clock"
	"peerd/overlay/replica"
)

// MaxReplicas bounds the replicas of a subnet.
const MaxReplicas = 4

// replicaPeer is a peer that keeps a copy of an owned subnet.
type replicaPeer struct {
	id     peer.ID
	well   time.Time // chosen, or when it last kept up
	synced bool      // it has had all; what is committed since may be missing
	late   time.Time // since when it acknowledges later than Safe waits; zero: it does not
	slow   bool      // it is late, or without a copy, for so long that another one takes its place
	told   bool      // Replicas knows of it since our start
	// until is when synced ends if it has not opened its copy: it gave us the subnet, and
	// may take over with what it had then for Times.Lost.
	until time.Time
}

// replicaPeersOf returns the named peers, none of which Replicas follows yet.
func replicaPeersOf(names []string) []replicaPeer {
	var ks []replicaPeer
	for _, name := range names {
		if id, err := peer.Decode(name); err == nil {
			ks = append(ks, replicaPeer{id: id, well: time.Now()})
		}
	}
	return ks
}

// replicas is the part of a Manager that keeps copies of its subnets at other peers.
type replicas struct {
	*table
}

// maintainReplicas checks the replicas of our subnets and chooses new ones for those
// that are lost or missing. The error comes from the store.
func (rs *replicas) maintainReplicas(now time.Time) error {
	if rs.cfg.Witness != nil {
		rs.cfg.Replicas.SetWitnessSet(rs.cfg.Witness.WitnessSet())
	}
	candidates := sync.OnceValue(rs.candidates)
	for _, s := range rs.guarded() {
		if !rs.enter(s) { // it has left: what is here is another peer's by now
			continue
		}
		err := rs.maintain(s, now, candidates)
		rs.exit(s)
		if rs.noteDiskFull(err) != nil {
			return err
		}
	}
	return nil
}

// maintain is maintainReplicas for a subnet that the caller has entered.
func (rs *replicas) maintain(
	s *subnet, now time.Time, candidates func() []assign.Candidate,
) error {
	ks, changed := rs.looked(s, now)
	if n := rs.missing(ks, now); n > 0 && !rs.draining.Load() {
		for _, id := range rs.nominate(s, ks, candidates(), n, now) {
			ks, changed = append(ks, replicaPeer{id: id, well: now}), true
		}
	}
	return rs.followed(s, ks, changed)
}

// missing returns how many replicas have to be added to those of a subnet. One that does not answer
// counts for half of Times.Lost: most come back, but if the owner then disappears as well, only
// another one has what the owner has acknowledged since.
func (rs *replicas) missing(ks []replicaPeer, now time.Time) int {
	n := rs.answering(ks, now, func(replicaPeer) bool { return true })
	return min(rs.cfg.ReplicaCount-n, MaxReplicas-len(ks))
}

// surplus returns how many of the last replicas of a subnet are not needed, because enough others
// answer and have everything.
func (rs *replicas) surplus(ks []replicaPeer, now time.Time) int {
	n := rs.answering(ks, now, isSynced)
	return max(0, n-rs.cfg.ReplicaCount)
}

// answering returns how many of the replicas that fit have answered within half of Times.Lost, and
// are not slow.
func (rs *replicas) answering(ks []replicaPeer, now time.Time, fit func(replicaPeer) bool) (n int) {
	for _, k := range ks {
		if fit(k) && !k.slow && now.Sub(k.well) <= rs.cfg.Times.Lost/2 {
			n++
		}
	}
	return n
}

// looked returns the replicas of a subnet without those that are lost, and reports
// whether any was. While this peer may have lost the subnet it drops no silent or slow replica,
// because that deletes the copy: the replica may be taking over.
func (rs *replicas) looked(s *subnet, now time.Time) (ks []replicaPeer, changed bool) {
	rs.mu.Lock()
	have, mayDrop := slices.Clone(s.replicas), s.unit.Works()
	rs.mu.Unlock()
	mayDrop = mayDrop && rs.HasQuorumLease()
	for _, k := range have {
		if !k.told {
			ks = append(ks, k)
			continue
		}
		st := rs.cfg.Replicas.State(s.prefix, k.id)
		refused := false
		switch {
		case st.Err == nil:
			k.well, k.synced = clock.Later(k.well, st.Heard), st.Synced || now.Before(k.until)
			rs.judge(&k, st, now)
		case errors.Is(st.Err, replica.ErrStale):
			rs.suspect(s, now)
		default:
			refused = errors.Is(st.Err, replica.ErrRefused)
		}
		if refused || mayDrop && now.Sub(k.well) > rs.cfg.Times.Lost {
			rs.dropReplica(s, k, now, st.Err)
			changed = true
			continue
		}
		ks = append(ks, k)
	}
	if !mayDrop {
		return ks, changed
	}
	enough := rs.answering(ks, now, isSynced) >= rs.cfg.ReplicaCount
	ks = slices.DeleteFunc(ks, func(k replicaPeer) bool {
		if !k.slow || !enough {
			return false
		}
		rs.dropReplica(s, k, now, errSlow)
		changed = true
		return true
	})
	for range rs.surplus(ks, now) {
		rs.cfg.Replicas.Unfollow(s.prefix, ks[len(ks)-1].id, true)
		ks, changed = ks[:len(ks)-1], true
	}
	return ks, changed
}

// snapshotTime is how long a replica may take for its first copy before another one gets one, too.
const snapshotTime = 10 * time.Minute

// errSlow is why a replica is dropped that answers and acknowledges late.
var errSlow = errors.New("it acknowledges too late, or has no copy for long")

// judge finds out whether a replica that answers is slow. URLs of other peers are acknowledged when
// the replicas have them within Times.Flush; one that is always later delays them without end.
func (rs *replicas) judge(k *replicaPeer, st replica.Follower, now time.Time) {
	switch {
	case st.Owes.IsZero() || now.Sub(st.Owes) <= rs.cfg.Times.Flush:
		k.late = time.Time{}
	case k.late.IsZero():
		k.late = now
	}
	k.slow = !k.late.IsZero() && now.Sub(k.late) > rs.cfg.Times.First ||
		!k.synced && !st.Since.IsZero() && now.Sub(st.Since) > snapshotTime
}

func isSynced(k replicaPeer) bool { return k.synced }

// dropReplica has a peer delete its copy of a subnet, and does not choose it again for a while.
func (rs *replicas) dropReplica(s *subnet, k replicaPeer, now time.Time, err error) {
	rs.log.Info("dropped replica", "subnet", s.prefix, "replica", k.id, "err", err)
	rs.cfg.Replicas.Unfollow(s.prefix, k.id, true)
	rs.mu.Lock()
	s.shun(k.id.String(), now)
	rs.mu.Unlock()
}

// followed starts following the replicas of a subnet and records them.
func (rs *replicas) followed(s *subnet, ks []replicaPeer, changed bool) error {
	for i := range ks {
		k := &ks[i]
		if k.told {
			continue
		}
		if err := rs.follow(s, k.id); err != nil {
			return err
		}
		k.told = true
	}
	rs.mu.Lock()
	s.replicas = ks
	if slices.ContainsFunc(ks, isSynced) {
		s.copied = time.Now()
	}
	rs.mu.Unlock()
	if changed {
		return rs.save(s)
	}
	return nil
}

// follow has a peer keep a copy of a subnet of ours.
func (rs *replicas) follow(s *subnet, to peer.ID) error {
	rs.mu.Lock()
	epoch := s.lease.Epoch
	rs.mu.Unlock()
	return rs.cfg.Replicas.Follow(s.prefix, to, epoch)
}

// nominate chooses up to n new replicas of a subnet.
func (rs *replicas) nominate(
	s *subnet, have []replicaPeer, all []assign.Candidate, n int, now time.Time,
) []peer.ID {
	rs.mu.Lock()
	q := nomination{subnet: s.prefix, self: rs.self, proxy: s.lease.Proxy,
		prefer: s.prefer, not: map[string]bool{}, holders: rs.cfg.Holders}
	for who, until := range s.avoid {
		if until.After(now) {
			q.not[who] = true
		}
	}
	if s.unit.To != "" { // it has a copy anyway, and will own the subnet
		q.not[s.unit.To] = true
	}
	rs.mu.Unlock()
	for _, k := range have {
		q.not[k.id.String()] = true
	}
	return q.choose(all, n)
}

// alone reports that there is no peer that could be a replica.
func (rs *replicas) alone() bool {
	all := rs.cfg.Directory.Candidates()
	return !slices.ContainsFunc(all, func(c assign.Candidate) bool {
		return c.ID != rs.self
	})
}
