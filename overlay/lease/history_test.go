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

	"peerd/overlay/record"
	"peerd/overlay/record/recordtest"
)

// What clients observe of one subnet's lease is checked for linearizability (Herlihy and
// Wing 1990) against this model: there is at most one holder, and none at first.
//
//	claim      without a holder  -> by holds it at epoch 1
//	           by is the holder  -> again, at the same epoch
//	           another holder    -> beaten
//	renew      by is the holder  -> at the same epoch; otherwise: beaten
//	hand over  by is the holder  -> to holds it at the next epoch
//	look up                      -> the holder and epoch
//
// While there is no holder, two peers that claim at once may each be shown the other's
// claim, and a lookup may show a claim that does not win: these only show that there is no
// holder yet. An operation that was interrupted may take effect at any later time, or never.
//
// The property holds if every operation reaches a majority of the replicas and messages
// take less than a sixth of Settle. Otherwise, as in a partition, two peers may each hold a
// claim until they learn of each other; if messages are only slow, the later one begins after that.

type operation int

const (
	claim operation = iota
	renew
	handOver
	lookUp
)

type holding struct {
	owner peer.ID
	epoch uint64
}

type call struct {
	op operation
	by peer.ID
	to peer.ID // of handOver
}

type answer struct {
	beaten bool
	holding
	interrupted bool
}

var oneHolder = porcupine.Model{
	Init: func() any { return holding{} },
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(holding), input.(call), output.(answer)
		free := s == holding{}
		after := s
		switch {
		case in.op == claim && free:
			after = holding{in.by, 1}
		case in.op == handOver && s.owner == in.by:
			after = holding{in.to, s.epoch + 1}
		}
		if out.interrupted {
			return true, after
		}
		switch in.op {
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
			return out.holding == s || free && out.epoch == 1, s
		}
	},
	DescribeOperation: func(input, output any) string {
		return fmt.Sprintf("%+v: %+v", input, output)
	},
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
	if out.interrupted {
		end = 1 << 40 // it may still take effect
	}
	r.ops = append(r.ops, porcupine.Operation{ClientId: client, Input: in, Call: begin, Output: out,
		Return: end})
}

// A client is a peer that may lose everything but its key.
type client struct {
	n        int
	registry *Registry
	values   record.Values
	held     *Lease // the lease that it holds, as far as it knows
	rec      *recorder
	clients  []*client
	t        *testing.T
}

// scenario is one operation of a client and the wait before it.
type scenario struct {
	Operation int
	After     time.Duration
	Limit     time.Duration // interrupted by then; 0: never
	Forget    bool
}

func (c *client) act(w scenario) {
	<-time.After(w.After)
	if w.Forget {
		c.registry, c.held = open(c.t, folk[c.n], c.values), nil
	}
	ctx := context.Background()
	if w.Limit > 0 && operation(w.Operation) != lookUp { // lookUp would answer from memory
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.Limit)
		defer cancel()
	}
	in := call{op: operation(w.Operation), by: folk[c.n].id}
	if c.held == nil && (in.op == renew || in.op == handOver) {
		in.op = claim
	}
	begin := c.rec.tick()
	client, l, err := c.n, Lease{}, error(nil)
	switch in.op {
	case claim:
		l, _, err = c.registry.Claim(ctx, subnet4)
	case renew:
		l, _, err = c.registry.Renew(ctx, *c.held)
	case lookUp:
		l, _, err = c.registry.Refresh(ctx, subnet4)
		if errors.Is(err, ErrUnowned) { // or its own claim, which it has forgotten
			return
		}
	case handOver:
		old := *c.held
		c.held = nil
		successor := c.clients[(c.n+1)%len(c.clients)]
		in.to = folk[successor.n].id
		g, sealing := old.GrantTo(in.to, time.Now(), folk[c.n].key)
		if sealing != nil {
			c.t.Error(sealing)
			return
		}
		l, _, err = successor.registry.Adopt(ctx, old, g, nil)
	}
	out := answer{holding: holding{l.Owner, l.Epoch}}
	var b *BeatenError
	switch {
	case errors.As(err, &b):
		out = answer{beaten: true}
		out.interrupted = in.op == handOver // the successor knew better: nothing was written
	case err != nil:
		out = answer{interrupted: true}
	case in.op == claim || in.op == renew:
		c.held = &l
	}
	if in.op == renew && out.interrupted {
		return // changes nothing
	}
	c.rec.note(client, begin, in, out)
}

// played returns the history of clients that follow the scripts.
func played(
	t *testing.T, dht *recordtest.DHT, settle time.Duration, scripts [][]scenario,
) []porcupine.Operation {
	rec := &recorder{}
	var all []*client
	for i := range scripts {
		values := dht.Peer()
		all = append(all, &client{n: i, values: values, rec: rec, t: t,
			registry: openSettling(t, folk[i], values, settle)})
	}
	var wg sync.WaitGroup
	for i, c := range all {
		c.clients = all
		wg.Go(func() {
			for _, w := range scripts[i] {
				c.act(w)
			}
		})
	}
	wg.Wait()
	return rec.ops
}

// TestHistoryIsLinearizable uses short histories; an integration test uses longer ones.
func TestHistoryIsLinearizable(t *testing.T) { checkLinearizable(t, 3, 3) }

// checkLinearizable draws histories with up to the given numbers of clients and operations
// of each.
func checkLinearizable(t *testing.T, clients, operations int) {
	t.Helper()
	rapid.Check(t, func(rt *rapid.T) {
		k := rapid.IntRange(1, 5).Draw(rt, "replicas")
		reach := rapid.IntRange(k/2+1, k).Draw(rt, "reach")
		seed := rapid.Uint64().Draw(rt, "seed")
		delay := rapid.IntRange(1, 250).Draw(rt, "delay ms")
		does := rapid.Custom(func(t *rapid.T) scenario {
			ms := rapid.IntRange(0, 3000)
			w := scenario{
				Operation: rapid.IntRange(int(claim), int(lookUp)).Draw(t, "operation"),
				After:     time.Duration(ms.Draw(t, "after ms")) * time.Millisecond,
				Forget:    rapid.IntRange(0, 5).Draw(t, "forget") == 0,
			}
			if rapid.IntRange(0, 4).Draw(t, "interrupted") == 0 {
				w.Limit = time.Duration(1+ms.Draw(t, "limit ms")) * time.Millisecond
			}
			return w
		})
		script := rapid.SliceOfN(does, 1, operations)
		scripts := rapid.SliceOfN(script, 2, clients).Draw(rt, "scripts")
		var history []porcupine.Operation
		synctest.Test(t, func(t *testing.T) {
			dht := recordtest.New(Validator{}, k)
			dht.Seed, dht.Reach, dht.MaxDelay = seed, reach, time.Duration(delay)*time.Millisecond
			history = played(t, dht, DefaultConfig().Settle, scripts)
		})
		if got := porcupine.CheckOperationsTimeout(oneHolder, history,
			time.Minute); got != porcupine.Ok {
			for _, op := range history {
				rt.Logf("client %d, %d to %d: %s", op.ClientId, op.Call, op.Return,
					oneHolder.DescribeOperation(op.Input, op.Output))
			}
			rt.Fatalf("the history is %v", got)
		}
	})
}

// TestHistoryShowsTwoHolders verifies that the model detects claims that do not settle.
func TestHistoryShowsTwoHolders(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		var history []porcupine.Operation
		synctest.Test(t, func(t *testing.T) {
			dht := recordtest.New(Validator{}, 3)
			dht.Seed, dht.MaxDelay = seed, 250*time.Millisecond
			one := []scenario{{Operation: int(claim)},
				{Operation: int(renew), After: time.Second}}
			history = played(t, dht, 0, [][]scenario{one, one, one})
		})
		if porcupine.CheckOperationsTimeout(oneHolder, history, time.Minute) == porcupine.Illegal {
			return
		}
	}
	t.Error("the model found one holder in all of 200 races of claims that do not settle")
}
