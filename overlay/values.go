package overlay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	dht "github.com/libp2p/go-libp2p-kad-dht"
	record "github.com/libp2p/go-libp2p-record"
	recpb "github.com/libp2p/go-libp2p-record/pb"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/routing"
)

var (
	// ErrNotFound says that nobody in reach holds a record. It wraps
	// routing.ErrNotFound.
	ErrNotFound = fmt.Errorf("overlay: no such record: %w", routing.ErrNotFound)
	// ErrUnreachable says that there are other peers, and none of them
	// answered in time. The record is stored here all the same.
	ErrUnreachable = errors.New("overlay: no replica answered")
)

// enough is how many further answers, after the first, end a read early
// (libp2p's quorum counts so). With one the read would hang on a single,
// perhaps lagging, replica.
const enough = 2

// Values reads and writes records of the DHT. It is safe for concurrent use.
type Values struct {
	dht      *dht.IpfsDHT
	replicas *replicas
	local    *local
	lookup   time.Duration
}

func newValues(h host.Host, d *dht.IpfsDHT, n Names, cfg Config) *Values {
	return &Values{
		dht:      d,
		replicas: newReplicas(h, d, n, cfg),
		local:    &local{store: cfg.Datastore, validator: d.Validator, age: cfg.RecordAge},
		lookup:   cfg.LookupTimeout,
	}
}

// Put stores val under key, here and at the peers nearest to the key. acks is
// how many of those hold val now; rejects is how many refused because they hold
// something better, this peer's own copy counted in. Peers that gave no
// usable answer count for neither. A single reject means that val has lost.
//
// A network of one gives 0, 0, nil. The error is the validator's if it refuses
// val, the datastore's, ErrUnreachable, or the end of ctx; the counts hold also
// then. Without a deadline in ctx a Put takes at most the lookup's and two
// answers' time.
func (v *Values) Put(ctx context.Context, key string, val []byte) (acks, rejects int, err error) {
	if err := v.dht.Validator.Validate(key, val); err != nil {
		return 0, 0, fmt.Errorf("overlay: record for %s: %w", key, err)
	}
	held, err := v.local.put(ctx, key, val)
	if err != nil {
		return 0, 0, err
	}
	if !held {
		return 0, 1, nil
	}
	known := v.replicas.known(key)
	if len(known) == 0 {
		return 0, 0, nil
	}
	c := &counted{v: v, key: key, val: val, rec: record.MakePutRecord(key, val), asked: make(map[peer.ID]bool)}
	c.send(ctx, known) // those at hand need not wait for the lookup
	look, cancel := context.WithTimeout(ctx, v.lookup)
	c.send(ctx, v.replicas.lookup(look, key))
	cancel()
	c.wait.Wait()

	switch {
	case ctx.Err() != nil:
		return c.acks, c.rejects, fmt.Errorf("overlay: put %s: %w", key, context.Cause(ctx))
	case c.acks+c.rejects == 0:
		return 0, 0, fmt.Errorf("%w: %d asked for %s", ErrUnreachable, len(c.asked), key)
	}
	return c.acks, c.rejects, nil
}

// Get returns the best value under key among this peer's own copy and the first
// few that answer, or ErrNotFound. A network of one has its own copy. When the
// time is up and nothing was found, the error is that of the time, as
// "nobody has it" is then not known.
func (v *Values) Get(ctx context.Context, key string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, v.lookup)
	defer cancel()
	held, err := v.local.get(ctx, key)
	if err != nil {
		return nil, err
	}
	best, err := v.search(ctx, key)
	switch {
	case best == nil && held == nil:
		if err == nil {
			err = fmt.Errorf("%w: %s", ErrNotFound, key)
		}
		return nil, err
	case best == nil || bytes.Equal(best, held):
		if best == nil {
			best = held
		}
		return best, nil
	case held == nil:
		return best, nil
	}
	// kad-dht never mends the reader's own copy, and answers others with it.
	if mended, err := v.local.put(ctx, key, best); err != nil || mended {
		return best, err
	}
	return held, nil
}

// search asks others. Nothing found is nil without an error.
func (v *Values) search(ctx context.Context, key string) ([]byte, error) {
	if v.dht.RoutingTable().Size() == 0 {
		return v.askKnown(ctx, key), nil
	}
	found, err := v.dht.SearchValue(ctx, key, dht.Quorum(enough))
	if err != nil {
		return nil, fmt.Errorf("overlay: get %s: %w", key, err)
	}
	var best []byte
	for val := range found { // each is better than the one before
		best = val
	}
	if best == nil && ctx.Err() != nil {
		return nil, fmt.Errorf("overlay: get %s: %w", key, context.Cause(ctx))
	}
	return best, nil
}

// askKnown asks connected peers directly: for the first moment after joining,
// when the routing table is empty.
func (v *Values) askKnown(ctx context.Context, key string) []byte {
	var mu sync.Mutex
	var best []byte
	var wait sync.WaitGroup
	for _, p := range v.replicas.known(key) {
		wait.Go(func() {
			val, err := v.replicas.get(ctx, p, key)
			if err != nil || len(val) == 0 || v.dht.Validator.Validate(key, val) != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if best != nil {
				if keep, err := v.local.better(key, best, val); err != nil || keep {
					return
				}
			}
			best = val
		})
	}
	wait.Wait()
	return best
}

// counted is one Put under way.
type counted struct {
	v     *Values
	key   string
	val   []byte
	rec   *recpb.Record
	asked map[peer.ID]bool // used by the caller's goroutine only
	wait  sync.WaitGroup

	mu            sync.Mutex
	acks, rejects int
}

// send puts the record to those of peers that were not asked before.
func (c *counted) send(ctx context.Context, peers []peer.ID) {
	for _, p := range peers {
		if c.asked[p] {
			continue
		}
		c.asked[p] = true
		c.wait.Go(func() { c.put(ctx, p) })
	}
}

// put hands the record to p, and when that fails looks at what p has, which
// tells a refusal from a dead peer.
func (c *counted) put(ctx context.Context, p peer.ID) {
	if c.v.replicas.put(ctx, p, c.rec) == nil {
		c.count(1, 0)
		return
	}
	val, err := c.v.replicas.get(ctx, p, c.key)
	switch {
	case err != nil || len(val) == 0 || c.v.dht.Validator.Validate(c.key, val) != nil:
		return
	case bytes.Equal(val, c.val): // stored, and the answer was lost
		c.count(1, 0)
		return
	}
	if ours, err := c.v.local.better(c.key, c.val, val); err != nil || ours {
		return
	}
	c.count(0, 1)
	// What beat us is to be found here too. If storing fails, others have it.
	_, _ = c.v.local.put(ctx, c.key, val)
}

func (c *counted) count(acks, rejects int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acks += acks
	c.rejects += rejects
}
