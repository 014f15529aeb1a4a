// Package recordtest is a DHT in memory for tests of what is built on package
// record: some replicas that select by a Validator as kad-dht's do, behind
// messages that take time. It belongs into a testing/synctest bubble.
package recordtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	libp2p "github.com/libp2p/go-libp2p-record"
	"github.com/libp2p/go-libp2p/core/routing"

	"peerd/overlay/record"
)

// ErrOffline is returned by a peer that reaches no replica.
var ErrOffline = errors.New("recordtest: no replica answers")

// DHT is a set of replicas of every key.
type DHT struct {
	// Validator judges and selects at every replica.
	Validator libp2p.Validator
	// MaxDelay bounds the way of one message. Some peers are that far away,
	// others up to 32 times nearer; each message is drawn from zero to that.
	MaxDelay time.Duration
	// Seed makes delays and reached replicas reproducible.
	Seed uint64
	// Reach is how many replicas one operation reaches; zero means all.
	Reach int
	// Cut says that a peer cannot reach a replica. Nil: never. It may change
	// while nothing is under way.
	Cut func(peer, replica int) bool

	replicas []*shelf
	peers    int
}

// New returns a DHT of k empty replicas.
func New(v libp2p.Validator, k int) *DHT {
	d := &DHT{Validator: v}
	for range k {
		d.replicas = append(d.replicas, &shelf{values: map[string][]byte{}})
	}
	return d
}

// Peer returns the DHT as another peer sees it. Not to be called at once with
// itself.
func (d *DHT) Peer() *Peer {
	d.peers++
	return &Peer{dht: d, id: d.peers - 1, own: &shelf{values: map[string][]byte{}}}
}

// Plant puts val under key at every replica, unasked.
func (d *DHT) Plant(key string, val []byte) {
	for _, s := range d.replicas {
		s.set(key, val)
	}
}

// Held returns what each replica has under key; nil where there is nothing.
func (d *DHT) Held(key string) [][]byte {
	var held [][]byte
	for _, s := range d.replicas {
		held = append(held, s.get(key))
	}
	return held
}

// shelf is what one holder of values has.
type shelf struct {
	mu     sync.Mutex
	values map[string][]byte
}

func (s *shelf) get(key string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values[key]
}

func (s *shelf) set(key string, val []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[key] = val
}

// offer is a replica's handling of a put.
func (s *shelf) offer(v libp2p.Validator, key string, val []byte) bool {
	if v.Validate(key, val) != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.values[key]
	if bytes.Equal(old, val) { // saves checking its signatures three times more
		return true
	}
	if old != nil && v.Validate(key, old) == nil {
		if i, err := v.Select(key, [][]byte{val, old}); err != nil || i != 0 {
			return false
		}
	}
	s.values[key] = val
	return true
}

// Peer is the DHT as one peer sees it, with that peer's own copies.
type Peer struct {
	dht *DHT
	id  int
	own *shelf

	mu   sync.Mutex
	ops  uint64
	puts int
	gets int
}

var _ record.Values = (*Peer)(nil)

// Calls returns how often Put and Get were called.
func (p *Peer) Calls() (puts, gets int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.puts, p.gets
}

// Put offers val to this peer's own shelf and to the replicas in reach.
func (p *Peer) Put(ctx context.Context, key string, val []byte) (acks, rejects int, err error) {
	op := p.begin(&p.puts)
	if err := p.dht.Validator.Validate(key, val); err != nil {
		return 0, 0, fmt.Errorf("recordtest: put: %w", err)
	}
	if !p.own.offer(p.dht.Validator, key, val) {
		return 0, 0, errors.New("can't replace a newer value with an older value")
	}
	var mu sync.Mutex
	err = p.each(ctx, op, func(s *shelf) {
		ok := s.offer(p.dht.Validator, key, val)
		mu.Lock()
		defer mu.Unlock()
		if ok {
			acks++
		} else {
			rejects++
		}
	})
	return acks, rejects, err
}

// Get returns the best of this peer's own copy and those in reach, and repairs
// the replicas that had another.
func (p *Peer) Get(ctx context.Context, key string) ([]byte, error) {
	op := p.begin(&p.gets)
	var mu sync.Mutex
	best := p.own.get(key)
	if best != nil && p.dht.Validator.Validate(key, best) != nil {
		best = nil
	}
	var asked []*shelf
	err := p.each(ctx, op, func(s *shelf) {
		val := s.get(key)
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, s)
		if val == nil || bytes.Equal(val, best) || p.dht.Validator.Validate(key, val) != nil {
			return
		}
		if best == nil {
			best = val
		} else if i, err := p.dht.Validator.Select(key, [][]byte{best, val}); err == nil && i == 1 {
			best = val
		}
	})
	if err != nil {
		return nil, err
	}
	if best == nil {
		return nil, fmt.Errorf("recordtest: %w", routing.ErrNotFound)
	}
	for _, s := range asked {
		if !bytes.Equal(s.get(key), best) {
			s.offer(p.dht.Validator, key, best)
		}
	}
	return best, nil
}

func (p *Peer) begin(n *int) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	*n++
	p.ops++
	return p.ops
}

// each calls fn at every replica in reach, one message's delay after the call,
// and returns when all answers are back.
func (p *Peer) each(ctx context.Context, op uint64, fn func(*shelf)) error {
	var wg sync.WaitGroup
	reached := p.reach(op)
	for _, r := range reached {
		wg.Go(func() {
			wait(p.dht.delay(p.id, r, op, 0))
			fn(p.dht.replicas[r])
			wait(p.dht.delay(p.id, r, op, 1))
		})
	}
	wg.Wait()
	if len(reached) == 0 && len(p.dht.replicas) > 0 {
		return ErrOffline
	}
	return ctx.Err()
}

// reach returns the replicas that operation op gets to.
func (p *Peer) reach(op uint64) []int {
	n := len(p.dht.replicas)
	want := p.dht.Reach
	if want == 0 {
		want = n
	}
	var rs []int
	for i := 0; i < n && len(rs) < want; i++ {
		r := (i + int(p.dht.hash(p.id, 0, op, 2)%uint64(n))) % n
		if p.dht.Cut == nil || !p.dht.Cut(p.id, r) {
			rs = append(rs, r)
		}
	}
	return rs
}

func (d *DHT) delay(peer, replica int, op, leg uint64) time.Duration {
	if d.MaxDelay <= 0 {
		return 0
	}
	bound := max(1, uint64(d.MaxDelay)>>(d.hash(peer, 0, 0, 3)%6))
	return time.Duration(d.hash(peer, replica, op, leg) % bound)
}

func (d *DHT) hash(peer, replica int, op, what uint64) uint64 {
	h := fnv.New64a()
	for _, x := range []uint64{what, op, uint64(replica), uint64(peer), d.Seed} {
		h.Write(binary.BigEndian.AppendUint64(nil, x))
	}
	x := h.Sum64() // FNV's low bits are poor: finish like MurmurHash3
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	return x ^ x>>33
}

func wait(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}
