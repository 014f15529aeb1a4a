package replica

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"peerd/store"
)

// A host that moves from a subnet of this peer's to one of which this peer keeps a copy is here
// twice for a while: as its own and, by the new owner's log, in the copy. It stays as it is, and
// the copy lacks it. So the copy remembers the host. When the host is in no subnet of this peer's
// any more, the owner is asked for a new snapshot.

// renewInterval is how often it is looked whether such hosts have left.
const renewInterval = 5 * time.Second

// maxOmitted bounds the hosts that a copy remembers. When these have left, the new snapshot shows
// the others.
const maxOmitted = 64

// withOmitted returns the hosts that a copy lacks, after ops have been applied to it.
func withOmitted(tx *store.Tx, p netip.Prefix, ops []store.Op, hosts []string) ([]string, error) {
	hosts = slices.Clone(hosts)
	for i := range ops {
		o := &ops[i]
		if o.Kind != store.OpHost || len(hosts) == maxOmitted || slices.Contains(hosts, o.Name) {
			continue
		}
		omitted, err := inTheWay(tx, p, o.Name)
		if err != nil {
			return nil, err
		}
		if omitted {
			hosts = append(hosts, o.Name)
		}
	}
	return hosts, nil
}

// inTheWay reports whether a host is not in a copy of p because it is in another subnet that is
// this peer's, or that is being wiped.
func inTheWay(tx *store.Tx, p netip.Prefix, host string) (bool, error) {
	h, err := tx.Host(host)
	if err != nil || h.Subnet == p {
		return false, store.IgnoreNotFound(err)
	}
	there, err := tx.Subnet(h.Subnet)
	return err == nil && there.Phase != store.PhaseReplica, store.IgnoreNotFound(err)
}

// omissions is the part of copies that renews those that lack hosts.
type omissions struct{ *copies }

// renewAll has the owners send copies again that lack hosts, if nothing is in the way any more.
func (cs omissions) renewAll() {
	var lacking []netip.Prefix
	cs.mu.Lock()
	for p, r := range cs.held {
		if r.link != nil && len(r.progress.Omitted) > 0 {
			lacking = append(lacking, p)
		}
	}
	cs.mu.Unlock()
	for _, p := range lacking {
		if err := cs.renew(p); err != nil {
			cs.cfg.Logger.Error("failed to renew copy", "subnet", p, "err", err)
		}
	}
}

// renew is renewAll for one copy.
func (cs omissions) renew(p netip.Prefix) error {
	defer cs.locks.lock(p)()
	cs.mu.Lock()
	r := cs.held[p]
	var in *replicaLink
	if r != nil {
		in = r.link
	}
	cs.mu.Unlock()
	if in == nil || len(r.progress.Omitted) == 0 {
		return nil
	}
	err := cs.cfg.DB.View(func(tx *store.Tx) error {
		for _, host := range r.progress.Omitted {
			switch still, err := inTheWay(tx, p, host); {
			case err != nil:
				return err
			case still:
				return errInTheWay
			}
		}
		return nil
	})
	if errors.Is(err, errInTheWay) {
		return nil
	}
	if err == nil {
		at := r.progress
		err = cs.write(r, nil, copyProgress{Unstarted: true, Size: at.Size, Robots: at.Robots})
	}
	if err == nil {
		cs.end(in, r, openReply{Subnet: p, Status: statusReopen, Reason: "hosts are missing"})
	}
	return err
}

var errInTheWay = errors.New("a host is in another subnet of this peer's")
