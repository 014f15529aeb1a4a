package owner

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/internal/order"
)

// nomination selects replicas of a subnet.
type nomination struct {
	subnet  netip.Prefix
	self    string
	proxy   *coords.Proxy
	prefer  []string        // who is known to have much of it already
	not     map[string]bool // who is out of the question
	holders Holders         // nil: not known
	// anywhere says that it does not matter who fails together with the owner.
	anywhere bool
}

// Peers as near as that to the nearest one are equal, so that the replicas of one owner
// are spread over all peers of a region.
const (
	nearFactor = 1.5
	nearSlack  = 20 * time.Millisecond
	// page is the size in bytes of the page with which nearness is computed.
	page = 10_000
)

// choose returns up to n peers: those that are preferred, then those in another
// network than the owner, near the subnet, and of equals those that a hash of
// subnet and name puts first. If there are not enough in other networks,
// those of the owner's own are taken too.
func (q nomination) choose(all []assign.Candidate, n int) []peer.ID {
	var own assign.Candidate
	for _, c := range all {
		if c.ID == q.self {
			own = c
		}
	}
	var far, near []option
	for _, c := range all {
		if c.ID == q.self || q.not[c.ID] {
			continue
		}
		o := q.option(c, own)
		if !q.anywhere && q.failTogether(c.Addr, own.Addr) {
			near = append(near, o)
		} else {
			far = append(far, o)
		}
	}
	var ids []peer.ID
	for _, os := range [][]option{far, near} {
		rank(os)
		for _, o := range os {
			if id, err := peer.Decode(o.id); err == nil && len(ids) < n {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// option is a peer that may become a replica of a subnet.
type option struct {
	id        string
	preferred bool
	time      time.Duration // of a page of the subnet from there
	hash      uint64
}

func (q nomination) option(c, own assign.Candidate) option {
	o := option{id: c.ID, preferred: slices.Contains(q.prefer, c.ID)}
	if q.proxy != nil && len(q.proxy.At.Vec) == len(c.At.Vec) {
		o.time = q.proxy.Predict(c.At, page)
	} else if len(own.At.Vec) == len(c.At.Vec) {
		o.time = time.Duration(own.At.Distance(c.At) * float64(time.Millisecond))
	}
	o.time += c.Wait
	sum := sha256.Sum256([]byte(q.subnet.String() + "\x00" + c.ID))
	o.hash = binary.BigEndian.Uint64(sum[:])
	return o
}

// rank puts options in order, the best first.
func rank(os []option) {
	if len(os) == 0 {
		return
	}
	best := slices.MinFunc(os, func(a, b option) int { return cmp.Compare(a.time, b.time) }).time
	limit := time.Duration(nearFactor*float64(best)) + nearSlack
	order.SortFunc(os, func(a, b option) int {
		switch aNear, bNear := a.time <= limit, b.time <= limit; {
		case a.preferred != b.preferred:
			return first(a.preferred)
		case aNear != bNear:
			return first(aNear)
		case aNear:
			return cmp.Compare(a.hash, b.hash)
		}
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.hash, b.hash))
	})
}

func first(is bool) int {
	if is {
		return -1
	}
	return 1
}

// failTogether reports whether two addresses are likely to fail together: those of one
// holder or, if the holders are not known, of one network.
func (q nomination) failTogether(a, b netip.Addr) bool {
	if q.holders != nil {
		x, okA := q.holders.Holder(a)
		y, okB := q.holders.Holder(b)
		if okA && okB {
			return x == y
		}
	}
	return sameNetwork(a, b)
}

// sameNetwork says whether two addresses are alike: of one IPv4 /16 or IPv6 /32. What is not known
// differs from everything.
func sameNetwork(a, b netip.Addr) bool {
	a, b = a.Unmap(), b.Unmap()
	if !a.IsValid() || !b.IsValid() || a.Is4() != b.Is4() {
		return false
	}
	bits := 32
	if a.Is4() {
		bits = 16
	}
	p, err := a.Prefix(bits)
	return err == nil && p.Contains(b)
}

// question is who may have a subnet. The table's mutex is held.
func (t *table) question(
	s *subnet, all []assign.Candidate, now time.Time,
) (q nomination, own assign.Candidate) {
	q = nomination{subnet: s.prefix, self: t.self, proxy: s.lease.Proxy,
		not: maps.Clone(s.exclude), anywhere: true}
	if q.not == nil {
		q.not = map[string]bool{}
	}
	for who, until := range s.avoid {
		if until.After(now) {
			q.not[who] = true
		}
	}
	for _, k := range s.replicas {
		if k.synced {
			q.prefer = append(q.prefer, k.id.String())
		}
	}
	for _, c := range all {
		if c.ID == q.self {
			own = c
		}
	}
	return q, own
}
