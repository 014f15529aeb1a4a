package outbox

import (
	"container/list"
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/lru"
)

const (
	// keepIdle is how long the owner of a host is remembered after its last URL has left.
	// maxIdle is the maximum number of such hosts.
	keepIdle = time.Hour
	maxIdle  = 1 << 16
	// maxBackoffs is the maximum number of owners of which failures are remembered.
	maxBackoffs = 4096
	// resolveAfter is the number of successive failures of an owner after which its hosts are
	// resolved again, because their homes may have changed. Its subnets' owners are read again
	// from the first failure on.
	resolveAfter = 12
)

// hostTable contains all hosts with pending URLs, ordered by when their next task is due. An
// operation takes time logarithmic in the number of hosts for each host it changes. A hostTable
// is not safe for concurrent use and does no I/O.
type hostTable struct {
	cfg       Config
	hosts     map[string]*entry
	subnets   map[netip.Prefix]map[*entry]struct{} // foreign and unclaimed hosts
	changed   *changes
	outboxes  map[peer.ID]*hostQueue
	unclaimed map[netip.Prefix]*hostQueue
	sending   map[peer.ID]bool
	claiming  map[netip.Prefix]retry // zero until: in progress; otherwise it failed
	backoffs  *lru.Simple[peer.ID, retry]
	idle      *list.List

	names   timeline[*entry]
	batches timeline[*hostQueue] // to owners that answered the last time
	retries timeline[*hostQueue] // to owners that did not
	claims  timeline[*hostQueue]

	total, unclaimedTotal int64 // pending URLs
	received              int64 // of total, those that other peers sent
	overLimit             bool  // see Config.MaxPending

	reads ownerReads
}

func newHostTable(cfg Config) *hostTable {
	t := &hostTable{
		cfg: cfg, hosts: map[string]*entry{}, subnets: map[netip.Prefix]map[*entry]struct{}{},
		changed: newChanges(), outboxes: map[peer.ID]*hostQueue{},
		unclaimed: map[netip.Prefix]*hostQueue{},
		sending:   map[peer.ID]bool{}, claiming: map[netip.Prefix]retry{},
		backoffs: lru.NewSimple[peer.ID, retry](maxBackoffs, nil),
		idle:     list.New(),
	}
	t.reads = ownerReads{cfg: &t.cfg, suspects: map[peer.ID]*suspect{}}
	return t
}

// add records n more URLs of a host. since is when the oldest of them was added.
func (t *hostTable) add(name string, n int, since, now time.Time) {
	e := t.hosts[name]
	if e == nil {
		e = &entry{name: name}
		t.hosts[name] = e
	}
	e.adds++
	if e.count == 0 {
		e.oldest = since
	}
	t.addCount(e, n, now)
}

// addCount adds n to the number of URLs of a host.
func (t *hostTable) addCount(e *entry, n int, now time.Time) {
	was := e.count
	e.count = max(0, was+n)
	n = e.count - was
	t.total += int64(n)
	t.setReceived(e, e.received)
	if e.queue != nil {
		t.addQueueCount(e.queue, n)
	}
	switch {
	case (was == 0) != (e.count == 0):
		t.setState(e, e.state, now, now)
	case e.queue != nil:
		t.schedule(e.queue, now)
	}
	t.checkLimit(now)
}

// addReceived records that n URLs of a host, or fewer if not so many are pending, came from other
// peers. They have been added before.
func (t *hostTable) addReceived(name string, n int) {
	if e := t.hosts[name]; e != nil {
		t.setReceived(e, e.received+n)
	}
}

func (t *hostTable) setReceived(e *entry, n int) {
	n = min(n, e.count)
	t.received += int64(n - e.received)
	e.received = n
}

// maxReceived is the part of Config.MaxPending that URLs of other peers may take.
const maxReceived = 10

// crowded reports whether no more URLs are taken from other peers that would be pending here. Most
// are so for seconds, but those with made-up names for hours: they must not cause overLimit.
func (t *hostTable) crowded() bool {
	return t.cfg.MaxPending > 0 && t.received >= t.cfg.MaxPending/maxReceived
}

// checkLimit updates overLimit. If it changes, all unclaimed queues are scheduled again.
func (t *hostTable) checkLimit(now time.Time) {
	limit := t.cfg.MaxPending
	if limit == 0 || t.overLimit && t.total > limit-limit/10 || !t.overLimit && t.total <= limit {
		return
	}
	t.overLimit = !t.overLimit
	for _, q := range t.unclaimed {
		t.schedule(q, now)
	}
}

func (t *hostTable) addQueueCount(q *hostQueue, n int) {
	q.count += n
	if q.owner == "" {
		t.unclaimedTotal += int64(n)
	}
}

// setState sets the state of a host and enters it in the corresponding structures. An
// unresolved host is not looked up before at. A host without URLs is deleted, unless it is
// foreign.
func (t *hostTable) setState(e *entry, s state, at, now time.Time) {
	t.unlink(e, now)
	e.state = s
	switch {
	case s == working:
		return
	case e.count == 0 && s != foreign:
		delete(t.hosts, e.name)
		return
	case s == unresolved:
		t.names.set(e, at)
		return
	}
	if t.subnets[e.res.Subnet] == nil {
		t.subnets[e.res.Subnet] = map[*entry]struct{}{}
	}
	t.subnets[e.res.Subnet][e] = struct{}{}
	if e.count == 0 {
		e.idleSince, e.elem = now, t.idle.PushBack(e)
		return
	}
	q := t.queueOf(e)
	if q.hosts.Len() == 0 || e.oldest.Before(q.oldest) {
		q.oldest = e.oldest
	}
	e.queue, e.elem = q, q.hosts.PushBack(e)
	t.addQueueCount(q, e.count)
	t.schedule(q, now)
}

// unlink removes a host from all structures except hosts.
func (t *hostTable) unlink(e *entry, now time.Time) {
	t.names.remove(e)
	if in := t.subnets[e.res.Subnet]; in != nil {
		delete(in, e)
		if len(in) == 0 {
			delete(t.subnets, e.res.Subnet)
		}
	}
	switch {
	case e.queue != nil:
		q := e.queue
		q.hosts.Remove(e.elem)
		t.addQueueCount(q, -e.count)
		e.queue = nil
		t.schedule(q, now)
	case e.elem != nil:
		t.idle.Remove(e.elem)
	}
	e.elem = nil
}

// queueOf returns the queue of a foreign or unclaimed host, which it creates if necessary.
func (t *hostTable) queueOf(e *entry) *hostQueue {
	if e.state == unclaimed {
		q := t.unclaimed[e.res.Subnet]
		if q == nil {
			q = &hostQueue{subnet: e.res.Subnet, hosts: list.New()}
			t.unclaimed[e.res.Subnet] = q
		}
		return q
	}
	q := t.outboxes[e.res.Owner]
	if q == nil {
		q = &hostQueue{owner: e.res.Owner, hosts: list.New()}
		t.outboxes[e.res.Owner] = q
	}
	return q
}

// schedule sets when the next batch or claim of a queue is due. It deletes an empty queue.
func (t *hostTable) schedule(q *hostQueue, now time.Time) {
	if q.timeline != nil {
		q.timeline.remove(q)
		q.timeline = nil
	}
	if q.hosts.Len() == 0 {
		if q.owner == "" {
			delete(t.unclaimed, q.subnet)
			if !t.claiming[q.subnet].until.IsZero() {
				delete(t.claiming, q.subnet)
			}
		} else {
			delete(t.outboxes, q.owner)
		}
		return
	}
	size, age, line := t.cfg.UnclaimedURLs, t.cfg.UnclaimedAge, &t.claims
	r, busy := t.claiming[q.subnet]
	busy = busy && r.until.IsZero()
	if q.owner != "" {
		size, age, line = t.cfg.batchSize(), t.cfg.MaxAge, &t.batches
		busy = t.sending[q.owner]
		r, _ = t.backoffs.Peek(q.owner)
		if r.fails > 0 {
			line = &t.retries
		}
	}
	if busy {
		return
	}
	if t.overLimit && q.owner == "" {
		size, age = 1, 0 // those with the oldest URLs first
	}
	at := q.oldest.Add(age)
	switch {
	case q.count < size:
		q.fullSince = time.Time{}
	case q.fullSince.IsZero():
		q.fullSince = now
	}
	if !q.fullSince.IsZero() && q.fullSince.Before(at) {
		at = q.fullSince
	}
	if r.until.After(at) {
		at = r.until
	}
	q.timeline = line
	line.set(q, at)
}

// nextLookup returns a host to be resolved now and marks it as working.
func (t *hostTable) nextLookup(now time.Time) *entry {
	e, ok := t.names.pop(now)
	if !ok {
		return nil
	}
	e.began = t.changed.last
	t.setState(e, working, time.Time{}, now)
	return e
}

// resolved records the owner of a host. A host of this peer remains working until its URLs have
// been moved.
func (t *hostTable) resolved(e *entry, res Resolution, now time.Time) {
	for other := range t.subnets[res.Subnet] { // any of them: all have the same owner
		if other.res.Kind != res.Kind || other.res.Owner != res.Owner {
			t.requeueSubnet(res.Subnet, now)
		}
		break
	}
	e.lookups = nameState{}
	switch {
	case res.Kind == Own:
		return
	case t.changed.after(res.Subnet, e.began):
		t.setState(e, unresolved, now, now)
		return
	case res.Kind == Unowned:
		res.Owner = ""
		e.res = res
		t.setState(e, unclaimed, time.Time{}, now)
		return
	}
	e.res = res
	t.setState(e, foreign, time.Time{}, now)
}

// resolveAfter schedules another lookup of a host after wait.
func (t *hostTable) resolveAfter(e *entry, wait time.Duration, now time.Time) {
	t.setState(e, unresolved, now.Add(wait), now)
}

// markDisputed handles a host that a finder has seen at found, in a subnet of this peer, while
// this peer takes another for its owner. It then schedules a lookup that reads the home record
// first, and returns true. Without this, peers that disagree about a host without a home record
// could forward its URLs in a circle.
func (t *hostTable) markDisputed(name string, found netip.Addr, now time.Time) bool {
	e := t.hosts[name]
	if e == nil || e.state != foreign {
		return false
	}
	e.rereadHome, e.foundAddr = true, found
	t.resolveAfter(e, 0, now)
	return true
}

// resolveAgain schedules another lookup of all hosts of a subnet, including those that are
// being resolved now.
func (t *hostTable) resolveAgain(p netip.Prefix, now time.Time) {
	t.changed.add(p)
	t.requeueSubnet(p, now)
}

func (t *hostTable) requeueSubnet(p netip.Prefix, now time.Time) {
	all := make([]*entry, 0, len(t.subnets[p]))
	for e := range t.subnets[p] {
		all = append(all, e)
	}
	for _, e := range all {
		t.setState(e, unresolved, now, now)
	}
}

// announced doubts the owner of a subnet if URLs wait for it, it does not answer, and another peer
// says that it owns the subnet. It reports whether it did.
func (t *hostTable) announced(p netip.Prefix, owner peer.ID) bool {
	for e := range t.subnets[p] { // any of them: all have the same owner
		was := e.res.Owner
		if was == owner || t.reads.suspects[was] == nil {
			return false
		}
		t.reads.doubt(doubt{owner: was, subnet: p})
		return true
	}
	return false
}

// ofOwner returns the entry of a host if it belongs to that owner.
func (t *hostTable) ofOwner(name string, owner peer.ID) *entry {
	if e := t.hosts[name]; e != nil && e.state == foreign && e.res.Owner == owner {
		return e
	}
	return nil
}

// removed records that n URLs of a host were removed from the store.
func (t *hostTable) removed(name string, n int, now time.Time) {
	if e := t.hosts[name]; e != nil && n > 0 {
		t.addCount(e, -n, now)
	}
}

// setCount lowers the number of URLs of a host to n, as read from the store, unless URLs were
// added since.
func (t *hostTable) setCount(name string, adds uint64, n int, now time.Time) {
	if e := t.hosts[name]; e != nil && e.adds == adds && e.count > n {
		t.addCount(e, n-e.count, now)
	}
}

// nextClaim returns a subnet to be claimed now.
func (t *hostTable) nextClaim(now time.Time) (netip.Prefix, bool) {
	q, ok := t.claims.pop(now)
	if !ok {
		return netip.Prefix{}, false
	}
	q.timeline = nil
	r := t.claiming[q.subnet]
	r.until = time.Time{}
	t.claiming[q.subnet] = r
	return q.subnet, true
}

// claimDone records the end of a claim. If it failed it is retried with back-off.
func (t *hostTable) claimDone(p netip.Prefix, ok bool, now time.Time) {
	r := t.claiming[p]
	delete(t.claiming, p)
	q := t.unclaimed[p]
	switch {
	case ok:
		t.resolveAgain(p, now)
	case q != nil:
		r.until = now.Add(t.cfg.backoff(r.fails))
		r.fails++
		t.claiming[p] = r
		t.schedule(q, now)
	}
}

// retryNow makes all hosts and queues due that wait after failures, and forgets these.
func (t *hostTable) retryNow(now time.Time) {
	for _, e := range slices.Clone(t.names.items) {
		e.fails, e.lookups = 0, nameState{}
		t.names.set(e, now)
	}
	t.backoffs.Purge()
	for p, r := range t.claiming {
		if !r.until.IsZero() {
			delete(t.claiming, p)
		}
	}
	for _, q := range t.outboxes {
		t.schedule(q, now)
	}
	for _, q := range t.unclaimed {
		t.schedule(q, now)
	}
}

// evictIdle deletes hosts that have had no URLs for long.
func (t *hostTable) evictIdle(now time.Time) {
	for t.idle.Len() > 0 {
		e := t.idle.Front().Value.(*entry)
		if t.idle.Len() <= maxIdle && now.Sub(e.idleSince) < keepIdle {
			return
		}
		t.setState(e, unresolved, now, now) // deletes it
	}
}

// untilDue returns the time until the next task of the given kinds is due.
func (t *hostTable) untilDue(now time.Time, names, batches, retries, claims bool) time.Duration {
	d := time.Minute
	if names {
		d = t.names.until(now, d)
	}
	if batches {
		d = t.batches.until(now, d)
	}
	if retries {
		d = t.retries.until(now, d)
	}
	if claims {
		d = t.claims.until(now, d)
	}
	return d
}
