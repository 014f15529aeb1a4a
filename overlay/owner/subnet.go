package owner

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/fxamacker/cbor/v2"

	"peerd/coords"
	"peerd/overlay/lease"
	"peerd/store"
)

// maxSamples bounds what is kept of a subnet's download times.
const maxSamples = 64

// subnet is the state of one subnet of ours. Its fields are guarded by the
// Manager's mutex.
type subnet struct {
	prefix      netip.Prefix
	phase       store.Phase
	lease       lease.Lease
	sealed      []byte
	since       time.Time
	samples     []coords.Sample
	exclude     map[string]bool // asked and not reached
	estimations int             // fetches by others before the decision
	idleSince   time.Time       // nothing queued and nothing under way; zero when busy
	renewAt     time.Time
	to          string // the heir while leaving
	asked       string // who fetches for us; outlives a restart
	grant       []byte // what was signed for it; not nil while PhaseCommitting
	lost        bool   // a better lease was met: to be yielded
	stale       bool   // too old to count: nothing is fetched until it is renewed
	moving      bool   // a goroutine hands it over, or yields it
	renewing    bool

	adding sync.WaitGroup // hosts being added; none begins while moving
}

// leaving says that the subnet is on its way to another peer: it takes no
// hosts and no URLs.
func (s *subnet) leaving() bool {
	return s.phase == store.PhaseCommitting || s.moving || s.lost || s.to != ""
}

// record is the durable form of s. The heir belongs to it only from the commit
// on: until then a restart decides anew.
func (s *subnet) record() (store.Subnet, error) {
	evidence, err := cbor.Marshal(s.samples)
	if err != nil {
		return store.Subnet{}, fmt.Errorf("owner: encode samples: %w", err)
	}
	r := store.Subnet{
		Prefix: s.prefix, Phase: s.phase, Lease: s.sealed, Epoch: s.lease.Epoch, Since: s.since,
		Evidence: evidence, Grant: s.grant, Estimations: s.estimations, Asked: s.asked,
	}
	if s.phase == store.PhaseCommitting {
		r.To = s.to
	}
	return r, nil
}

// fromRecord is the inverse of record.
func fromRecord(r store.Subnet) (*subnet, error) {
	l, err := lease.OpenLease(r.Lease)
	if err != nil {
		return nil, fmt.Errorf("owner: subnet %v: %w", r.Prefix, err)
	}
	s := &subnet{
		prefix: r.Prefix, phase: r.Phase, lease: l, sealed: r.Lease, since: r.Since,
		exclude: map[string]bool{}, estimations: r.Estimations, to: r.To, grant: r.Grant, asked: r.Asked,
	}
	if err := cbor.Unmarshal(r.Evidence, &s.samples); err != nil {
		s.samples = nil // only advice; it is gathered again
	}
	s.trim()
	return s, nil
}

// observe keeps a sample.
func (s *subnet) observe(x coords.Sample) {
	s.samples = append(s.samples, x)
	s.trim()
}

// trim keeps the newest samples only.
func (s *subnet) trim() {
	if n := len(s.samples) - maxSamples; n > 0 {
		s.samples = append(s.samples[:0:0], s.samples[n:]...)
	}
}

// Info is what the outside may know of a subnet.
type Info struct {
	Prefix      netip.Prefix
	Epoch       uint64
	Phase       store.Phase
	Proxy       *coords.Proxy
	Estimations int
	Since       time.Time
}

func (s *subnet) info() Info {
	return Info{
		Prefix: s.prefix, Epoch: s.lease.Epoch, Phase: s.phase, Proxy: s.lease.Proxy,
		Estimations: s.estimations, Since: s.since,
	}
}
