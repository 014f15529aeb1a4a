package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/libp2p/go-libp2p/core/peer"
	"pgregory.net/rapid"

	"peerd/overlay/lease/register/registertest"
)

// What clients see of one subnet's lease is checked for linearizability (Herlihy and
// Wing 1990) against this model: there is one holder, at first nobody.
//
//	claim      by nobody's      -> by holds it at epoch 1
//	           by's already     -> at its epoch, once more
//	           another's        -> beaten
//	renew      by's             -> at its epoch; another's: beaten
//	hand over  by's             -> to holds it, an epoch later
//	look up                     -> the holder and epoch
//
// While it is nobody's, two who claim at once may each be shown the other's claim, and
// one look-up may show a claim that does not win: these say nothing of the holder, only
// that there is none yet. An operation that was broken off may take effect at any later
// time, or never.
//
// It holds where every operation reaches a majority of the replicas and messages are
// faster than a sixth of Settle. Where they are not, as in a partition, two may hold a
// claim each until they meet.

type deed int

const (
	claim deed = iota
	renew
	handOver
	lookUp
)

type holding struct {
	owner peer.ID
	epoch uint64
}

type call struct {
	deed deed
	by   peer.ID
	to   peer.ID // of handOver
}

type answer struct {
	beaten bool
	holding
	brokenOff bool
}

var oneHolder = porcupine.Model{
	Init: func() any { return holding{} },
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(holding), input.(call), output.(answer)
		nobody := s == holding{}
		after := s
		switch {
		case in.deed == claim && nobody:
			after = holding{in.by, 1}
		case in.deed == handOver && s.owner == in.by:
			after = holding{in.to, s.epoch + 1}
		}
		if out.brokenOff {
			return true, after
		}
		switch in.deed {
		case claim:
			if out.beaten {
				return s.owner != in.by, s
			}
			return out.holding == after && after.owner == in.by, after
		case renew:
			if out.beaten {
				return s.owner != in.by, s
			}
			return out.holding == s && s.owner == in.by, s
		case handOver:
			return out.holding == after && s.owner == in.by, after
		default:
			return out.holding == s || nobody && out.epoch == 1, s
		}
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

// A recorder notes operations in the order in which they really began and ended.
type recorder struct {
	mu    sync.Mutex
	clock int64
	ops   []porcupine.Operation
}

func (r *recorder) tick() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock++
	return r.clock
}

func (r *recorder) note(client int, begin int64, in call, out answer) {
	end := r.tick()
	r.mu.Lock()
	defer r.mu.Unlock()
	if out.brokenOff {
		end = 1 << 40 // it may still take effect
	}
	r.ops = append(r.ops, porcupine.Operation{ClientId: client, Input: in, Call: begin, Output: out, Return: end})
}

// A client is one peer, that may forget all but its key.
type client struct {
	n        int
	registry *Registry
	values   Values
	held     *Lease // what it may act as
	rec      *recorder
	clients  []*client
	t        *testing.T
}

// what a client does, and how long after the last that begins.
type what struct {
	Deed   int
	After  time.Duration
	Limit  time.Duration // broken off by then; 0: never
	Forget bool
}

func (c *client) act(w what) {
	<-time.After(w.After)
	if w.Forget {
		c.registry, c.held = open(c.t, folk[c.n], c.values), nil
	}
	ctx := context.Background()
	if w.Limit > 0 && deed(w.Deed) != lookUp { // which then answers from memory, as it says
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.Limit)
		defer cancel()
	}
	in := call{deed: deed(w.Deed), by: folk[c.n].id}
	if c.held == nil && (in.deed == renew || in.deed == handOver) {
		in.deed = claim
	}
	begin := c.rec.tick()
	client, l, err := c.n, Lease{}, error(nil)
	switch in.deed {
	case claim:
		l, _, err = c.registry.Claim(ctx, subnet4)
	case renew:
		l, _, err = c.registry.Renew(ctx, *c.held)
	case lookUp:
		l, _, err = c.registry.Refresh(ctx, subnet4)
		if errors.Is(err, ErrUnowned) { // or its own, which it has forgotten
			return
		}
	case handOver:
		old := *c.held
		c.held = nil
		heir := c.clients[(c.n+1)%len(c.clients)]
		in.to = folk[heir.n].id
		g, sealing := SealGrant(Grant{subnet4, old.Owner, in.to, old.Epoch + 1, time.Now()}, folk[c.n].key)
		if sealing != nil {
			c.t.Error(sealing)
			return
		}
		l, _, err = heir.registry.Adopt(ctx, subnet4, old.Epoch+1, g, nil)
	}
	out := answer{holding: holding{l.Owner, l.Epoch}}
	var b *BeatenError
	switch {
	case errors.As(err, &b):
		out = answer{beaten: true}
		out.brokenOff = in.deed == handOver // the heir knew better: nothing was written
	case err != nil:
		out = answer{brokenOff: true}
	case in.deed == claim || in.deed == renew:
		c.held = &l
	}
	if in.deed == renew && out.brokenOff {
		return // changes nothing
	}
	c.rec.note(client, begin, in, out)
}

// played returns the history of some clients that do what is said.
func played(t *testing.T, dht *registertest.DHT, settle time.Duration, scripts [][]what) []porcupine.Operation {
	rec := &recorder{}
	var all []*client
	for i := range scripts {
		values := dht.Peer()
		all = append(all, &client{n: i, registry: open(t, folk[i], values), values: values, rec: rec, t: t})
	}
	var wg sync.WaitGroup
	for i, c := range all {
		c.clients = all
		c.registry.cfg.Settle = settle
		wg.Go(func() {
			for _, w := range scripts[i] {
				c.act(w)
			}
		})
	}
	wg.Wait()
	return rec.ops
}

func TestHistoryIsLinearizable(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		k := rapid.IntRange(1, 5).Draw(rt, "replicas")
		reach := rapid.IntRange(k/2+1, k).Draw(rt, "reach")
		seed := rapid.Uint64().Draw(rt, "seed")
		delay := rapid.IntRange(1, 250).Draw(rt, "delay ms")
		does := rapid.Custom(func(t *rapid.T) what {
			w := what{
				Deed:   rapid.IntRange(int(claim), int(lookUp)).Draw(t, "deed"),
				After:  time.Duration(rapid.IntRange(0, 3000).Draw(t, "after ms")) * time.Millisecond,
				Forget: rapid.IntRange(0, 5).Draw(t, "forget") == 0,
			}
			if rapid.IntRange(0, 4).Draw(t, "broken off") == 0 {
				w.Limit = time.Duration(rapid.IntRange(1, 3000).Draw(t, "limit ms")) * time.Millisecond
			}
			return w
		})
		scripts := rapid.SliceOfN(rapid.SliceOfN(does, 1, 5), 2, 4).Draw(rt, "scripts")
		var history []porcupine.Operation
		synctest.Test(t, func(t *testing.T) {
			dht := registertest.New(Validator{}, k)
			dht.Seed, dht.Reach, dht.MaxDelay = seed, reach, time.Duration(delay)*time.Millisecond
			history = played(t, dht, DefaultConfig().Settle, scripts)
		})
		if got := porcupine.CheckOperationsTimeout(oneHolder, history, time.Minute); got != porcupine.Ok {
			for _, op := range history {
				rt.Logf("client %d, %d to %d: %s", op.ClientId, op.Call, op.Return, oneHolder.DescribeOperation(op.Input, op.Output))
			}
			rt.Fatalf("the history is %v", got)
		}
	})
}

// The model sees it if claims do not settle.
func TestHistoryShowsTwoHolders(t *testing.T) {
	for seed := range uint64(200) {
		var history []porcupine.Operation
		synctest.Test(t, func(t *testing.T) {
			dht := registertest.New(Validator{}, 3)
			dht.Seed, dht.MaxDelay = seed, 250*time.Millisecond
			one := []what{{Deed: int(claim)}, {Deed: int(renew), After: time.Second}}
			history = played(t, dht, 0, [][]what{one, one, one})
		})
		if porcupine.CheckOperationsTimeout(oneHolder, history, time.Minute) == porcupine.Illegal {
			return
		}
	}
	t.Error("200 races of claims that do not settle, and one holder in all of them")
}
