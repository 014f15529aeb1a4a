package attack

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/internal/clock"
	"peerd/node"
	"peerd/overlay/lease"
	"peerd/overlay/peers"
	"peerd/overlay/wire"
	"peerd/store"
)

// Attacks of witnesses and on them.

func witnessAttacks() []Attack {
	return []Attack{
		{
			Name: "lying-witness", Unit: "share of the time without a page", Limit: 0.5, Slow: true,
			Does: "is one of four witnesses of an owner, and tells it again and again that it " +
				"has voted its subnet away",
			By: "a vote stops an owner only if the other witnesses are too few; a witness with " +
				"votes that lead to no lease is replaced",
			run: lieAsWitness,
		},
		{
			Name: "votes-for-strangers", Unit: "votes given, of 2,560", Slow: true,
			Does: "asks for votes about 10 owners that do not exist, with witness sets that name " +
				"the victim",
			By:  "a witness votes only about owners that have sent it heartbeats",
			run: askVotes,
		},
		{
			Name: "leaving-witnesses", Unit: "s without a page", Limit: 15, Slow: true,
			Does: "six well-behaved peers of the attacker in one /16 end at once; the three " +
				"others are in three more",
			By: "no more witnesses of one /16 than necessary: here two of four, and the quorum " +
				"lease needs two answers, of the last 15 s",
			run: leaveTogether,
		},
	}
}

// attend has a member measure and be measured like an honest peer. answer answers heartbeats.
func (m *member) attend(answer peers.Answerer) error {
	ec := coords.DefaultConfig()
	ec.Rand = rand.New(rand.NewPCG(1, 2))
	est := coords.NewEstimator(ec)
	c := peers.DefaultConfig()
	c.Host, c.Key, c.Topic = m.host, m.key, m.e.names.Beacons()
	c.Protocol, c.HeartbeatProtocol = m.e.names.Coords(), m.e.names.Heartbeat()
	c.Estimator, c.Answerer, c.Clock = est, answer, clock.Of(m.e.now)
	service, err := peers.New(c)
	if err != nil {
		return err
	}
	m.e.running.Go(func() { _ = service.Run(m.e.ctx) }) // it ends with ctx only
	return nil
}

// falseWitness answers the heartbeats of owners. While lying is set it says that it has voted
// for another owner of the subnet.
type falseWitness struct {
	to    peer.ID
	lying atomic.Bool
	heard atomic.Int64

	mu     sync.Mutex
	subnet netip.Prefix
	set    map[peer.ID]uint64
	num    uint64
}

func newFalseWitness(p netip.Prefix, to peer.ID) *falseWitness {
	return &falseWitness{subnet: p, to: to, set: map[peer.ID]uint64{}}
}

// about changes the subnet about which the witness lies.
func (w *falseWitness) about(p netip.Prefix) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.subnet = p
}

func (w *falseWitness) AnswerHeartbeat(
	_ context.Context, from peer.ID, payload []byte,
) ([]byte, error) {
	var q struct {
		Heartbeat struct {
			Set []byte `cbor:"1,keyasint,omitempty"`
		} `cbor:"1,keyasint"`
	}
	if err := wire.Unmarshal(payload, &q); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if p, err := lease.OpenWitnessSet(q.Heartbeat.Set); err == nil {
		w.set[from] = p.Seq
	}
	if w.set[from] > 0 {
		w.heard.Add(1)
	}
	ack := fields{1: w.set[from], 2: 7}
	if w.lying.Load() {
		w.num++
		ack[3] = []any{fields{1: w.num, 2: w.subnet, 3: 2, 4: w.to}}
	}
	return wire.Marshal(fields{1: ack})
}

func lieAsWitness(e *arena) (outcome, error) {
	s, err := e.site(9, 400)
	if err != nil {
		return outcome{}, err
	}
	vs, err := e.peers(4)
	if err != nil {
		return outcome{}, err
	}
	m, err := e.member()
	if err != nil {
		return outcome{}, err
	}
	w := newFalseWitness(store.SubnetOf(s.addr.Addr()), m.id)
	if err := m.attend(w); err != nil {
		return outcome{}, err
	}
	err = e.until("the attacker is a witness", func() bool { return w.heard.Load() >= 4 })
	if err != nil {
		return outcome{}, err
	}
	if err := e.crawl(vs[0], s); err != nil {
		return outcome{}, err
	}
	w.lying.Store(true)
	const length = 20 * time.Second
	before := s.fetched()
	if err := e.sleep(length); err != nil {
		return outcome{}, err
	}
	got := s.fetched() - before
	return outcome{max(0, 1-float64(got)/(length.Seconds()/e.gap.Seconds())),
		fmt.Sprintf("%.1f pages a second, %.0f alone; the witness lied %d times",
			float64(got)/length.Seconds(), 1/e.gap.Seconds(), w.num)}, nil
}

func askVotes(e *arena) (outcome, error) {
	vs, err := e.peers(1)
	if err != nil {
		return outcome{}, err
	}
	s, err := e.stranger()
	if err != nil {
		return outcome{}, err
	}
	for from := vs[0].Status().VotesFrom; time.Now().Before(from.Add(time.Second)); {
		if err := e.sleep(time.Second); err != nil {
			return outcome{}, err
		}
	}
	votes := 0
	status := map[uint64]int{}
	for range 10 {
		owner, err := newIdentity()
		if err != nil {
			return outcome{}, err
		}
		members := []peer.ID{vs[0].ID(), s.id} // of a pair it would vote only after a minute
		slices.Sort(members)
		set, err := lease.SealWitnessSet(lease.WitnessSet{Network: e.names.Network(),
			Owner: owner.id, Seq: 1, Members: members, Issued: e.now()}, owner.key)
		if err != nil {
			return outcome{}, err
		}
		var proposals []any
		for i := range 256 {
			proposals = append(proposals, fields{1: store.SubnetOf(netip.AddrFrom4(
				[4]byte{127, 40, byte(i), 1})), 2: 2, 3: lease.Digest{1}})
		}
		given, why, err := s.vote(vs[0], fields{1: set, 2: proposals, 3: 1})
		if err != nil {
			return outcome{}, err
		}
		votes += given
		status[why]++
	}
	return outcome{float64(votes), fmt.Sprintf("answers by status: %v", status)}, nil
}

// vote asks a witness for votes, and returns how many it gave, and its status.
func (s *stranger) vote(of *node.Node, request fields) (given int, status uint64, err error) {
	var answer struct {
		Vote struct {
			Status uint64   `cbor:"1,keyasint"`
			Votes  [][]byte `cbor:"2,keyasint"`
		} `cbor:"2,keyasint"`
	}
	c, err := s.dial(of, s.e.names.Witness())
	if err != nil {
		return 0, 0, err
	}
	defer func() { c.End(err) }()
	if err = c.Send(fields{2: request}); err == nil {
		err = c.Recv(&answer)
	}
	return len(answer.Vote.Votes), answer.Vote.Status, err
}

func leaveTogether(e *arena) (outcome, error) {
	s, err := e.site(10, 2000)
	if err != nil {
		return outcome{}, err
	}
	var addrs []string
	for i := range 9 {
		if i < 3 {
			addrs = append(addrs, fmt.Sprintf("127.%d.0.1", 41+i))
		} else {
			addrs = append(addrs, fmt.Sprintf("127.50.%d.1", i))
		}
	}
	e.keep = true // else a peer of the attacker may get the site
	all, err := e.peersAt(addrs...)
	if err != nil {
		return outcome{}, err
	}
	honest, sybils := all[:3], all[3:]
	if err := e.crawl(honest[0], s); err != nil {
		return outcome{}, err
	}
	if err := e.sleep(15 * time.Second); err != nil { // the owner has named its witnesses
		return outcome{}, err
	}
	if slices.Contains(sybils, e.owner(s)) {
		return outcome{}, fmt.Errorf("attack: a peer of the attacker owns the site")
	}
	for _, n := range sybils {
		n.Stop()
	}
	return e.longestPause(s, 75*time.Second)
}

// longestPause watches the requests to a site, and returns the longest time without a new page.
func (e *arena) longestPause(s *site, d time.Duration) (outcome, error) {
	end, last, most := time.Now().Add(d), time.Now(), time.Duration(0)
	for n := s.fetched(); time.Now().Before(end); {
		if now := s.fetched(); now > n {
			n, last = now, time.Now()
		}
		most = max(most, time.Since(last))
		if err := e.sleep(50 * time.Millisecond); err != nil {
			return outcome{}, err
		}
	}
	return outcome{most.Seconds(), fmt.Sprintf("watched for %v", d)}, nil
}
