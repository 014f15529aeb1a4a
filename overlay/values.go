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
	// ErrNotFound is returned if no reachable peer holds a record. It wraps
	// routing.ErrNotFound.
	ErrNotFound = fmt.Errorf("overlay: no such record: %w", routing.ErrNotFound)
	// ErrUnreachable is returned if there are other peers, and none of them
	// answered in time. The record is nevertheless stored at this peer.
	ErrUnreachable = errors.New("overlay: no record holder answered")
)

const (
	// enoughAnswers is how many answers end a read. With one, the read would rely on a single
	// record holder, which may lag.
	enoughAnswers = 3
	// nearTimeout is how long a read waits for the nearest record holders that are known, before
	// it looks for others. It is more than two round trips around the world.
	nearTimeout = time.Second
)

// Values reads and writes records of the DHT. It is safe for concurrent use.
type Values struct {
	dht     *dht.IpfsDHT
	holders *holders
	local   *localRecords
}

func newValues(h host.Host, d *dht.IpfsDHT, n Names, cfg Config, by *signers) *Values {
	return &Values{
		dht:     d,
		holders: newHolders(h, d, n),
		local: &localRecords{store: cfg.Datastore, validator: d.Validator, age: recordAge,
			signers: by},
	}
}

// Put stores val under key, at this peer and at the peers nearest to the key. acks is
// how many of those hold val now; rejects is how many refused because they hold
// a better value, this peer included. Peers without a usable answer count for
// neither. A single reject means that val has lost.
//
// A network of one gives 0, 0, nil. The error is that of the validator if it refuses
// val, of the datastore, ErrUnreachable, or the end of ctx; the counts are valid even
// then. Without a deadline in ctx a Put takes at most the time of a lookup and two
// answers.
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
	known := v.holders.known(key)
	if len(known) == 0 {
		return 0, 0, nil
	}
	c := &putOperation{v: v, key: key, val: val, rec: record.MakePutRecord(key, val),
		asked: make(map[peer.ID]bool)}
	c.send(ctx, known) // these need not wait for the lookup
	look, cancel := context.WithTimeout(ctx, lookupTimeout)
	c.send(ctx, v.holders.lookup(look, key))
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

// Get returns the best value under key among this peer's own record and the first
// few answers, or ErrNotFound. A peer that is alone has its own records. On a timeout
// without a value the error is the timeout, because it is not known then that no peer
// holds one.
func (v *Values) Get(ctx context.Context, key string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
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
	// kad-dht does not update the reader's own record, which it serves to others.
	if stored, err := v.local.put(ctx, key, best); err != nil || stored {
		return best, err
	}
	return held, nil
}

// search asks other peers. If nothing is found it returns nil without an error.
func (v *Values) search(ctx context.Context, key string) ([]byte, error) {
	known := v.holders.known(key)
	if v.dht.RoutingTable().Size() == 0 { // just joined: no peer to begin a lookup with
		best, _ := v.ask(ctx, known, key)
		return best, nil
	}
	// A lookup asks about seven peers until three have answered, and each sends addresses too.
	if len(known) >= enoughAnswers {
		near, cancel := context.WithTimeout(ctx, nearTimeout)
		best, answers := v.ask(near, known[:enoughAnswers], key)
		cancel()
		if answers == enoughAnswers {
			return best, nil
		}
	}
	// libp2p counts the answers after the first.
	found, err := v.dht.SearchValue(ctx, key, dht.Quorum(enoughAnswers-1))
	if err != nil {
		return nil, fmt.Errorf("overlay: get %s: %w", key, err)
	}
	var best []byte
	for val := range found { // each is better than the last
		best = val
	}
	if best == nil && ctx.Err() != nil {
		return nil, fmt.Errorf("overlay: get %s: %w", key, context.Cause(ctx))
	}
	return best, nil
}

// ask asks peers for their records, all at once and without a lookup. It returns the best valid
// record, and how many peers have sent one.
func (v *Values) ask(ctx context.Context, peers []peer.ID, key string) ([]byte, int) {
	var mu sync.Mutex
	var best []byte
	answers := 0
	var wait sync.WaitGroup
	for _, p := range peers {
		wait.Go(func() {
			val, err := v.holders.get(ctx, p, key)
			if err != nil || len(val) == 0 || v.dht.Validator.Validate(key, val) != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			answers++
			if best != nil {
				if keep, err := v.local.better(key, best, val); err != nil || keep {
					return
				}
			}
			best = val
		})
	}
	wait.Wait()
	return best, answers
}

// putOperation is one running Put.
type putOperation struct {
	v     *Values
	key   string
	val   []byte
	rec   *recpb.Record
	asked map[peer.ID]bool // used only by the caller's goroutine
	wait  sync.WaitGroup

	mu            sync.Mutex
	acks, rejects int
}

// send puts the record to those of peers that were not asked before.
func (c *putOperation) send(ctx context.Context, peers []peer.ID) {
	for _, p := range peers {
		if c.asked[p] {
			continue
		}
		c.asked[p] = true
		c.wait.Go(func() { c.put(ctx, p) })
	}
}

// put sends the record to p. If that fails it reads the record of p, to tell a refusal
// from a dead peer.
func (c *putOperation) put(ctx context.Context, p peer.ID) {
	if c.v.holders.put(ctx, p, c.rec) == nil {
		c.count(1, 0)
		return
	}
	val, err := c.v.holders.get(ctx, p, c.key)
	switch {
	case err != nil || len(val) == 0 || c.v.dht.Validator.Validate(c.key, val) != nil:
		return
	case bytes.Equal(val, c.val): // stored, but the answer was lost
		c.count(1, 0)
		return
	}
	if ours, err := c.v.local.better(c.key, c.val, val); err != nil || ours {
		return
	}
	c.count(0, 1)
	// Store the better value here too. If that fails, other peers have it.
	_, _ = c.v.local.put(ctx, c.key, val)
}

func (c *putOperation) count(acks, rejects int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acks += acks
	c.rejects += rejects
}
