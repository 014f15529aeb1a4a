package overlay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	dht "github.com/libp2p/go-libp2p-kad-dht"
	libp2p "github.com/libp2p/go-libp2p-record"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/routing"

	"peerd/overlay/record"
	"peerd/overlay/wire"
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
	// nearTimeout is how long a read waits for the nearest members that are known, before it looks
	// for others. It is more than two round trips around the world.
	nearTimeout = time.Second
)

// Values reads and writes records of the DHT. It is safe for concurrent use.
type Values struct {
	dht      *dht.IpfsDHT
	holders  *holders
	local    *localRecords
	requests wire.Limiter // of other peers
}

// newValues returns the records of a DHT.
func newValues(h host.Host, d *dht.IpfsDHT, cfg Config, n Names) *Values {
	local := &localRecords{store: cfg.Datastore, age: recordAge, self: h.ID(), k: numHolders,
		validator: libp2p.NamespacedValidator(cfg.Validators), table: d.RoutingTable(),
		signers: newSigners(cfg.Validators, h.Peerstore())}
	return &Values{dht: d, holders: newHolders(h, d, n), local: local}
}

// Put stores val under key, at this peer and at the peers nearest to the key. acks is
// how many of those hold val now; rejects is how many refused because they hold
// a better value, this peer included. Peers without a usable answer count for
// neither. A single reject means that val has lost.
//
// A network of one gives 0, 0, nil. The error is that of the validator if it refuses
// val, of the datastore, *record.RefusedError if all who answered hold another value that is not
// better, ErrUnreachable, or the end of ctx; the counts are valid even then. Without a deadline
// in ctx a Put takes at most the time of a lookup and two answers.
func (v *Values) Put(ctx context.Context, key string, val []byte) (acks, rejects int, err error) {
	if err := v.local.validator.Validate(key, val); err != nil {
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
	c := &putOperation{v: v, key: key, val: val, asked: map[peer.ID]bool{},
		refused: map[peer.ID][]byte{}}
	c.send(ctx, known) // these need not wait for the lookup
	look, cancel := context.WithTimeout(ctx, lookupTimeout)
	c.send(ctx, v.holders.lookup(look, key))
	cancel()
	c.wait.Wait()

	switch {
	case ctx.Err() != nil:
		return c.acks, c.rejects, fmt.Errorf("overlay: put %s: %w", key, context.Cause(ctx))
	case c.acks+c.rejects == 0 && len(c.refused) > 0:
		return 0, 0, fmt.Errorf("overlay: put %s: %w", key, &record.RefusedError{Held: c.refused})
	case c.acks+c.rejects == 0:
		return 0, 0, fmt.Errorf("%w: %d asked for %s", ErrUnreachable, len(c.asked), key)
	}
	return c.acks, c.rejects, nil
}

// Get returns the best value under key among this peer's own record and the first
// few answers, or ErrNotFound. A peer that is alone has its own records. On a timeout
// without a value, also of one of the members that a lookup has found, the error is the
// timeout, because it is not known then that no peer holds one. The answers behind ErrNotFound
// are at most about nearTimeout old.
func (v *Values) Get(ctx context.Context, key string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	held, err := v.local.get(ctx, key)
	if err != nil {
		return nil, err
	}
	g := &getOperation{v: v, key: key, held: held, best: held, answers: map[peer.ID][]byte{}}
	g.run(ctx)
	switch {
	case g.best == nil && ctx.Err() != nil:
		return nil, fmt.Errorf("overlay: get %s: %w", key, context.Cause(ctx))
	case g.best == nil && g.silent > 0:
		return nil, fmt.Errorf("overlay: get %s: %d record holders were silent: %w", key,
			g.silent, context.DeadlineExceeded)
	case g.best == nil:
		return nil, fmt.Errorf("%w: %s", ErrNotFound, key)
	case held == nil || bytes.Equal(g.best, held):
		return g.best, nil
	}
	// What this peer holds it serves to others.
	if stored, err := v.local.put(ctx, key, g.best); err != nil || stored {
		return g.best, err
	}
	return held, nil
}

// getOperation is one running Get. Only the caller's goroutine uses it.
type getOperation struct {
	v    *Values
	key  string
	held []byte // this peer's own record; nil: none

	best    []byte             // so far, held included
	answers map[peer.ID][]byte // valid records of peers; nil: the peer has none
	records int                // of answers that are not nil
	silent  int                // how many of the peers asked last did not answer in time
}

// run asks other peers until enoughAnswers have sent a record: first the nearest members that are
// known, then those that a lookup finds. If none had one and a silent peer was waited for, a record
// may have been written meanwhile, so that all who answered are asked again.
func (g *getOperation) run(ctx context.Context) {
	begin := time.Now()
	known := g.v.holders.known(g.key)
	near, cancel := context.WithTimeout(ctx, nearTimeout)
	g.ask(near, known, enoughAnswers)
	cancel()
	if g.records >= enoughAnswers || g.v.dht.RoutingTable().Size() == 0 {
		return // with an empty table there is no peer to begin a lookup with
	}
	found := g.v.holders.lookup(ctx, g.key)
	g.ask(ctx, found, numHolders)
	if g.best == nil && time.Since(begin) >= nearTimeout {
		g.askAgain(ctx)
	}
	if g.records < enoughAnswers {
		g.mend(ctx, found)
	}
}

// askAgain asks all who have answered.
func (g *getOperation) askAgain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, nearTimeout)
	defer cancel()
	silent, who := g.silent, slices.Collect(maps.Keys(g.answers))
	clear(g.answers)
	g.ask(ctx, who, len(who))
	g.silent += silent
}

// ask asks those of peers that have not answered yet for their records, until enoughAnswers have
// sent one. It begins with the first n, and asks two more for each that has none.
func (g *getOperation) ask(ctx context.Context, peers []peer.ID, n int) {
	type answer struct {
		from peer.ID
		val  []byte
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	came := make(chan answer, len(peers))
	running := 0
	g.silent = 0
	for {
		for ; n > 0 && len(peers) > 0; peers = peers[1:] {
			p := peers[0]
			if _, ok := g.answers[p]; ok {
				continue
			}
			n, running = n-1, running+1
			wait.Go(func() {
				val, err := g.v.fetch(ctx, p, g.key, g.held)
				came <- answer{p, val, err}
			})
		}
		if running == 0 || g.records >= enoughAnswers {
			return
		}
		a := <-came
		running--
		switch {
		case a.err == nil:
			g.take(a.from, a.val)
		case errors.Is(a.err, errSilent):
			g.silent++
		}
		if a.val == nil {
			n += 2
		}
	}
}

// fetch returns the valid record that p holds; nil without an error means that it has none.
// held is the record of this peer.
func (v *Values) fetch(ctx context.Context, p peer.ID, key string, held []byte) ([]byte, error) {
	val, err := v.holders.get(ctx, p, key, held)
	if err != nil || len(val) == 0 {
		return nil, err
	}
	if !bytes.Equal(val, held) {
		if err := v.local.validator.Validate(key, val); err != nil {
			return nil, fmt.Errorf("overlay: record for %s from %v: %w", key, p, err)
		}
	}
	return val, nil
}

// take takes in the answer of a peer.
func (g *getOperation) take(from peer.ID, val []byte) {
	g.answers[from] = val
	if val == nil {
		return
	}
	g.records++
	if g.best != nil {
		if keep, err := g.v.local.better(g.key, g.best, val); err != nil || keep {
			return
		}
	}
	g.best = val
}

// mend sends the best record to those of peers that have answered without it.
func (g *getOperation) mend(ctx context.Context, peers []peer.ID) {
	if g.best == nil {
		return
	}
	var wait sync.WaitGroup
	for _, p := range peers {
		if val, ok := g.answers[p]; ok && !bytes.Equal(val, g.best) {
			wait.Go(func() { _, _ = g.v.holders.put(ctx, p, g.key, g.best) }) // or it refuses
		}
	}
	wait.Wait()
}

// putOperation is one running Put.
type putOperation struct {
	v     *Values
	key   string
	val   []byte
	asked map[peer.ID]bool // used only by the caller's goroutine
	wait  sync.WaitGroup

	mu            sync.Mutex
	acks, rejects int
	refused       map[peer.ID][]byte // other values, which are not better
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

// put sends the record to p, and counts what it holds then.
func (c *putOperation) put(ctx context.Context, p peer.ID) {
	val, err := c.v.holders.put(ctx, p, c.key, c.val)
	if err != nil || len(val) == 0 {
		return
	}
	if bytes.Equal(val, c.val) {
		c.count(1, 0)
		return
	}
	if c.v.local.validator.Validate(c.key, val) != nil {
		return
	}
	ours, err := c.v.local.better(c.key, c.val, val)
	if err != nil {
		return
	}
	if ours {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.refused[p] = val
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
