package attack

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"peerd/node"
	"peerd/overlay/home"
	"peerd/overlay/lease"
	"peerd/store"
)

// Attacks on who owns a subnet, and on where a host is at home.

func subnetAttacks() []Attack {
	return []Attack{
		{
			Name: "subnet-theft", Unit: "subnets lost, of 1",
			Does: "forges leases of another peer's subnet: grants by a second key, high epochs, " +
				"ground hashes, claims of silence, votes of its own witnesses; and sends them as " +
				"offers, copies, votes, gossip and DHT records",
			By: "chained leases; an owner yields to its own grant, its own witnesses or its " +
				"absence",
			run: stealSubnet,
		},
		{
			Name: "young-claim", Unit: "subnets lost, of 1", Slow: true,
			Does: "forges a lease of a subnet that was claimed just now, of ten peers; with " +
				"receipts by its own keys",
			By: "receipts of the old members nearest to the key: they sign for the first claim " +
				"only; with fewer than seven nothing within 45 s",
			run: stealYoung,
		},
		{
			Name: "replay", Unit: "records accepted",
			Does: "sends leases, homes and beacons that were signed for another network",
			By:   "the network is part of what is signed",
			run:  replay,
		},
		{
			Name: "planted-home", Unit: "URLs lost, of 6", Slow: true,
			Does: "claims an empty subnet and writes home records of hosts that no peer crawls " +
				"yet, says that it crawls them, acknowledges their URLs and drops them",
			By: "a home in which a peer's own resolver shows no address of the host is believed " +
				"only of an owner that has been known for ten minutes",
			run: plantHomes,
		},
	}
}

// forgeries returns leases that a stranger can make of the subnet of another peer's lease.
func forgeries(e *arena, l lease.Lease) ([][]byte, error) {
	var all [][]byte
	now := e.now()
	x, err := newIdentity()
	if err != nil {
		return nil, err
	}
	y, err := newIdentity()
	if err != nil {
		return nil, err
	}
	add := func(l lease.Lease, by identity) error {
		l.Issued, l.Expires = now, now.Add(time.Hour)
		sealed, err := lease.SealLease(l, by.key)
		all = append(all, sealed)
		return err
	}
	granted := func(old lease.Lease, from, to identity) error {
		next := old.Next(to.id)
		var err error
		if next.Grant, err = old.GrantTo(to.id, now, from.key); err != nil {
			return err
		}
		return add(next, to)
	}
	claim := lease.Lease{Network: l.Network, Subnet: l.Subnet, Owner: x.id, Epoch: 1, Claimed: now}
	receipted, earlier := claim, claim
	receipted.Receipts = []byte{0} // made up when the owner is known
	earlier.Claimed = now.Add(-2 * time.Hour)
	high := lease.Lease{Network: l.Network, Subnet: l.Subnet, Owner: x.id, Epoch: 1 << 47,
		Links: []lease.Link{{Owner: y.id, Epoch: 1<<47 - 1, Prev: lease.Digest{1}}}}
	for _, err := range []error{
		granted(claim, x, y), granted(earlier, x, y), granted(high, x, y),
		ground(claim, l, add), ground(receipted, l, add), voted(claim, x, y, now, add),
		silent(l, x, now, add),
	} {
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// ground adds a claim with a key that wins the tie.
func ground(claim, l lease.Lease, add func(lease.Lease, identity) error) error {
	signed := len(claim.Receipts) > 0
	for {
		z, err := newIdentity()
		if err != nil {
			return err
		}
		if claim.Owner = z.id; lease.Better(claim, l) <= 0 && l.Epoch == 1 {
			continue
		}
		if signed {
			if claim.Receipts, err = madeUpReceipts(claim); err != nil {
				return err
			}
		}
		return add(claim, z)
	}
}

// madeUpReceipts returns receipts for a claim by keys of the attacker.
func madeUpReceipts(claim lease.Lease) (all []byte, err error) {
	for range 12 {
		who, err := newIdentity()
		if err != nil {
			return nil, err
		}
		if all, err = lease.AppendReceipt(all, claim, who.key); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// voted adds a takeover from x to y by votes of witnesses that x has named.
func voted(
	claim lease.Lease, x, y identity, now time.Time, add func(lease.Lease, identity) error,
) error {
	set := lease.WitnessSet{Network: claim.Network, Owner: x.id, Seq: 1, Issued: now}
	var members []identity
	for range 2 {
		who, err := newIdentity()
		if err != nil {
			return err
		}
		members, set.Members = append(members, who), append(set.Members, who.id)
	}
	slices.SortFunc(members, func(a, b identity) int {
		if a.id < b.id {
			return -1
		}
		return 1
	})
	slices.Sort(set.Members)
	sealed, err := lease.SealWitnessSet(set, x.key)
	if err != nil {
		return err
	}
	next := claim.Next(y.id)
	next.Takeover = &lease.Takeover{WitnessSet: sealed}
	for _, m := range members {
		v, err := lease.SealVote(lease.Vote{Voter: m.id, Subnet: claim.Subnet, Epoch: 2,
			From: x.id, To: y.id, SetSeq: 1, Ended: claim.Digest(), Issued: now}, m.key)
		if err != nil {
			return err
		}
		next.Takeover.Votes = append(next.Takeover.Votes, v)
	}
	return add(next, y)
}

// silent adds a takeover without votes of a claim that another key made long ago.
func silent(
	l lease.Lease, x identity, now time.Time, add func(lease.Lease, identity) error,
) error {
	y, err := newIdentity()
	if err != nil {
		return err
	}
	old := lease.Lease{Network: l.Network, Subnet: l.Subnet, Owner: y.id, Epoch: 1,
		Claimed: now.Add(-3 * time.Hour), Issued: now.Add(-2 * lease.LongSilence),
		Expires: now.Add(time.Hour)}
	sealed, err := lease.SealLease(old, y.key)
	if err != nil {
		return err
	}
	next := old.Next(x.id)
	next.Takeover = &lease.Takeover{At: now.Add(-lease.Skew)}
	if next.Takeover.Last, err = lease.LastOf(sealed); err != nil {
		return err
	}
	return add(next, x)
}

// ownedSite starts honest peers, of which one crawls a site, and a hostile member.
func (e *arena) ownedSite(pages int) (vs []*node.Node, s *site, m *member, err error) {
	if s, err = e.site(1, pages); err != nil {
		return nil, nil, nil, err
	}
	if vs, err = e.peers(3); err != nil {
		return nil, nil, nil, err
	}
	if err = e.crawl(vs[0], s); err != nil {
		return nil, nil, nil, err
	}
	m, err = e.member()
	return vs, s, m, err
}

func stealSubnet(e *arena) (outcome, error) {
	vs, s, m, err := e.ownedSite(60)
	if err != nil {
		return outcome{}, err
	}
	e.pass(50 * time.Second) // the claim is not young any more
	return e.steal(vs, s, m)
}

func stealYoung(e *arena) (outcome, error) {
	e.keep = true // else the subnet may go to another honest peer meanwhile
	s, err := e.site(1, 60)
	if err != nil {
		return outcome{}, err
	}
	vs, err := e.peers(10)
	if err != nil {
		return outcome{}, err
	}
	if err := e.sleep(65 * time.Second); err != nil { // who joins now is not an old member
		return outcome{}, err
	}
	m, err := e.member()
	if err != nil {
		return outcome{}, err
	}
	if err := e.crawl(vs[0], s); err != nil {
		return outcome{}, err
	}
	return e.steal(vs, s, m)
}

// steal sends forged leases of a site's subnet in every way, and reports whether the owner has
// lost it.
func (e *arena) steal(vs []*node.Node, s *site, m *member) (outcome, error) {
	p := store.SubnetOf(s.addr.Addr())
	owner := e.owner(s)
	raw, err := m.net.Values().Get(e.ctx, lease.Key(p))
	if err != nil {
		return outcome{}, err
	}
	l, err := lease.OpenLease(raw)
	if err != nil {
		return outcome{}, err
	}
	all, err := forgeries(e, l)
	if err != nil {
		return outcome{}, err
	}
	stored, answers := 0, map[string]int{}
	for _, sealed := range all {
		f, err := lease.OpenLease(sealed)
		if err != nil {
			return outcome{}, err
		}
		stored += m.put(lease.Key(p), sealed)
		for _, v := range vs {
			m.show(v, s, f, sealed, answers)
		}
	}
	for _, way := range []string{"offer", "order", "copy"} {
		if answers[way] == 0 {
			return outcome{}, fmt.Errorf("attack: no %s was answered", way)
		}
	}
	e.within(45*time.Second, func() bool { return s.fetched() >= len(s.pages)-1 })
	lost := 0.0
	if now := e.owner(s); now == nil || now != owner || s.fetched() < len(s.pages)-1 {
		lost = 1
	}
	return outcome{lost, fmt.Sprintf("%d forged leases; stored by %d record holders; answers %v; "+
		"%d of %d pages fetched", len(all), stored, answers, s.fetched(), len(s.pages)-1)}, nil
}

// show sends a forged lease of a site's subnet to a peer in every message that carries leases, and
// counts the answers, which are refusals.
func (m *member) show(
	v *node.Node, s *site, f lease.Lease, sealed []byte, answers map[string]int,
) {
	count := func(way string, err error) {
		if err == nil {
			answers[way]++
		}
	}
	_, err := m.ask(v, m.e.names.Handover(), fields{1: f.Subnet, 2: f.Epoch + 1, 3: sealed,
		7: store.LogPos{Log: 1}}, false, false)
	count("offer", err)
	_, err = m.ask(v, m.e.names.Estimate(), fields{1: sealed, 2: fields{1: s.url("/p1"),
		2: s.addr.Addr()}}, false, true)
	count("order", err)
	_, err = m.ask(v, m.e.names.Replica(), fields{2: fields{1: f.Subnet, 2: f.Epoch, 3: sealed,
		7: 1, 8: 5, 9: store.LogPos{}}}, true, true)
	count("copy", err)
}

func replay(e *arena) (outcome, error) {
	vs, err := e.peers(2)
	if err != nil {
		return outcome{}, err
	}
	m, err := e.member()
	if err != nil {
		return outcome{}, err
	}
	now, p := e.now(), netip.MustParsePrefix("127.31.1.0/24")
	l, err := lease.SealLease(lease.Lease{Network: "another",
		Subnet: netip.MustParsePrefix("127.31.3.0/24"),
		Owner:  m.id, Epoch: 1, Claimed: now, Issued: now, Expires: now.Add(time.Hour)}, m.key)
	if err != nil {
		return outcome{}, err
	}
	h, err := home.Seal(home.Record{Network: "another", Host: "replayed.test", Subnet: p, By: m.id,
		Issued: now, Epoch: 1}, m.key)
	if err != nil {
		return outcome{}, err
	}
	_, own, err := e.claim(p, m.identity)
	if err != nil {
		return outcome{}, err
	}
	if m.put(lease.Key(p), own) == 0 {
		return outcome{}, fmt.Errorf("attack: a lease of this network was not stored either")
	}
	other := netip.MustParsePrefix("127.31.3.0/24")
	accepted := m.put(lease.Key(other), l) + m.put(home.Key("replayed.test"), h)
	before := vs[0].Status().Directory
	s, err := e.stranger()
	if err != nil {
		return outcome{}, err
	}
	err = s.foreignBeacon(vs[0])
	if e.within(time.Second, func() bool { return vs[0].Status().Directory > before }) {
		accepted++
	}
	return outcome{float64(accepted), fmt.Sprintf("beacon: %v", err)}, nil
}

// plantHomes plants the homes of two hosts, one of them with addresses in two subnets.
func plantHomes(e *arena) (outcome, error) {
	one, err := e.site(2, 3)
	if err != nil {
		return outcome{}, err
	}
	two, err := e.site(3, 3)
	if err != nil {
		return outcome{}, err
	}
	e.resolve(two.host, two.addr.Addr(), netip.MustParseAddr("127.30.4.7"))
	vs, err := e.peers(3)
	if err != nil {
		return outcome{}, err
	}
	if err := e.sleep(65 * time.Second); err != nil { // who joins now is not an old member
		return outcome{}, err
	}
	m, err := e.member()
	if err != nil {
		return outcome{}, err
	}
	honest := newFalseWitness(netip.Prefix{}, m.id) // it does not lie in this
	if err := m.attend(honest); err != nil {
		return outcome{}, err
	}
	err = e.until("the peers know the attacker", func() bool {
		return vs[1].Status().Directory == len(vs)
	})
	if err != nil {
		return outcome{}, err
	}
	dropped, asked := m.dropBatches(), m.claimToCrawl()
	p := netip.MustParsePrefix("127.31.2.0/24")
	_, sealed, err := e.claim(p, m.identity)
	if err != nil {
		return outcome{}, err
	}
	stored := m.put(lease.Key(p), sealed)
	for _, s := range []*site{one, two} {
		rec, err := home.Seal(home.Record{Network: e.names.Network(), Host: s.host, Subnet: p,
			By: m.id, Issued: e.now().Add(-time.Minute), Epoch: 1}, m.key)
		if err != nil {
			return outcome{}, err
		}
		stored += m.put(home.Key(s.host), rec)
		urls := []string{s.url("/p0"), s.url("/p1"), s.url("/p2")}
		if _, err := vs[1].Seed(e.ctx, urls); err != nil {
			return outcome{}, err
		}
	}
	fetched := func() int { return one.fetched() + two.fetched() }
	e.within(25*time.Second, func() bool { return fetched() == 6 })
	return outcome{float64(6 - fetched()), fmt.Sprintf("%d record holders; the attacker was asked "+
		"%d times, and %d batches came to it", stored, asked.Load(), dropped.Load())}, nil
}
