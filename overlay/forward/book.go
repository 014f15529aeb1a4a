package forward

import (
	"container/list"
	"net/netip"
	"slices"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/libp2p/go-libp2p/core/peer"
)

const (
	// keepIdle is how long the owner of a host is remembered after its last
	// URL has left, and maxIdle for how many hosts.
	keepIdle = time.Hour
	maxIdle  = 1 << 16
	// maxRests bounds the owners whose failures are remembered.
	maxRests = 4096
	// doubtAfter is the number of failures in a row after which hosts are
	// resolved anew: their home may have moved. Who owns it is asked at once.
	doubtAfter = 12
)

// book is what the Forwarder knows of foreign hosts, ordered by what is due.
// No operation costs more than the logarithm of the number of hosts, times the
// hosts that it changes. It is not safe for concurrent use, and does no I/O.
type book struct {
	cfg       Config
	hosts     map[string]*entry
	subnets   map[netip.Prefix]map[*entry]struct{} // the foreign and the nursery
	working   map[*entry]struct{}
	outboxes  map[peer.ID]*lot
	nurseries map[netip.Prefix]*lot
	sending   map[peer.ID]bool
	claiming  map[netip.Prefix]rest // and those that failed lately
	rests     *simplelru.LRU[peer.ID, rest]
	idle      *list.List

	names   timeline[*entry]
	batches timeline[*lot] // to owners that answered last time
	retries timeline[*lot] // to those that did not
	claims  timeline[*lot]

	total, nursed int64 // URLs
	crowded       bool  // they are too many

	suspects map[peer.ID]*suspect // owners that do not answer
	denials  []denial             // subnets that their supposed owners do not own
	doubts   timeline[*suspect]
	paced    time.Time // no lease is read anew before
}

func newBook(cfg Config) *book {
	rests, err := simplelru.NewLRU[peer.ID, rest](maxRests, nil)
	if err != nil {
		panic(err) // only for a size below one
	}
	return &book{
		cfg: cfg, hosts: map[string]*entry{}, subnets: map[netip.Prefix]map[*entry]struct{}{},
		working: map[*entry]struct{}{}, outboxes: map[peer.ID]*lot{}, nurseries: map[netip.Prefix]*lot{},
		sending: map[peer.ID]bool{}, claiming: map[netip.Prefix]rest{}, rests: rests, idle: list.New(),
		suspects: map[peer.ID]*suspect{},
	}
}

// add notes that n more URLs wait for a host, the oldest since then.
func (b *book) add(name string, n int, since, now time.Time) {
	e := b.hosts[name]
	if e == nil {
		e = &entry{name: name}
		b.hosts[name] = e
	}
	e.news++
	if e.count == 0 {
		e.oldest = since
	}
	b.change(e, n, now)
}

// change corrects the count of a host by n.
func (b *book) change(e *entry, n int, now time.Time) {
	was := e.count
	e.count = max(0, was+n)
	n = e.count - was
	b.total += int64(n)
	if e.lot != nil {
		b.weigh(e.lot, n)
	}
	switch {
	case (was == 0) != (e.count == 0):
		b.put(e, e.state, now, now)
	case e.lot != nil:
		b.plan(e.lot, now)
	}
	b.crowd(now)
}

// crowd looks whether too many URLs wait, and when that has begun or ended plans
// all nurseries anew.
func (b *book) crowd(now time.Time) {
	most := b.cfg.MaxWaiting
	if most == 0 || b.crowded && b.total > most-most/10 || !b.crowded && b.total <= most {
		return
	}
	b.crowded = !b.crowded
	for _, l := range b.nurseries {
		b.plan(l, now)
	}
}

func (b *book) weigh(l *lot, n int) {
	l.count += n
	if l.owner == "" {
		b.nursed += int64(n)
	}
}

// put gives a host a state, and enters it where that belongs. at matters for
// an unresolved one: it is not asked for before. A host without URLs is
// forgotten, unless it is known to be foreign.
func (b *book) put(e *entry, s state, at, now time.Time) {
	b.unlink(e, now)
	e.state = s
	switch {
	case s == working:
		b.working[e] = struct{}{}
		return
	case e.count == 0 && s != foreign:
		delete(b.hosts, e.name)
		return
	case s == unresolved:
		b.names.set(e, at)
		return
	}
	if b.subnets[e.res.Subnet] == nil {
		b.subnets[e.res.Subnet] = map[*entry]struct{}{}
	}
	b.subnets[e.res.Subnet][e] = struct{}{}
	if e.count == 0 {
		e.idle, e.elem = now, b.idle.PushBack(e)
		return
	}
	l := b.lotOf(e)
	if l.hosts.Len() == 0 || e.oldest.Before(l.since) {
		l.since = e.oldest
	}
	e.lot, e.elem = l, l.hosts.PushBack(e)
	b.weigh(l, e.count)
	b.plan(l, now)
}

// unlink takes a host out of wherever it is.
func (b *book) unlink(e *entry, now time.Time) {
	delete(b.working, e)
	b.names.remove(e)
	if in := b.subnets[e.res.Subnet]; in != nil {
		delete(in, e)
		if len(in) == 0 {
			delete(b.subnets, e.res.Subnet)
		}
	}
	switch {
	case e.lot != nil:
		l := e.lot
		l.hosts.Remove(e.elem)
		b.weigh(l, -e.count)
		e.lot = nil
		b.plan(l, now)
	case e.elem != nil:
		b.idle.Remove(e.elem)
	}
	e.elem = nil
}

// lotOf returns the lot that e belongs to, made if need be.
func (b *book) lotOf(e *entry) *lot {
	if e.state == nursery {
		l := b.nurseries[e.res.Subnet]
		if l == nil {
			l = &lot{subnet: e.res.Subnet, hosts: list.New()}
			b.nurseries[e.res.Subnet] = l
		}
		return l
	}
	l := b.outboxes[e.res.Owner]
	if l == nil {
		l = &lot{owner: e.res.Owner, hosts: list.New()}
		b.outboxes[e.res.Owner] = l
	}
	return l
}

// plan enters a lot for when it is due, or forgets it if it is empty.
func (b *book) plan(l *lot, now time.Time) {
	if l.line != nil {
		l.line.remove(l)
		l.line = nil
	}
	if l.hosts.Len() == 0 {
		if l.owner == "" {
			delete(b.nurseries, l.subnet)
			if !b.claiming[l.subnet].until.IsZero() {
				delete(b.claiming, l.subnet)
			}
		} else {
			delete(b.outboxes, l.owner)
		}
		return
	}
	size, age, line := b.cfg.NurseryURLs, b.cfg.NurseryAge, &b.claims
	r, busy := b.claiming[l.subnet]
	busy = busy && r.until.IsZero()
	if l.owner != "" {
		size, age, line = b.cfg.batchSize(), b.cfg.MaxAge, &b.batches
		busy = b.sending[l.owner]
		r, _ = b.rests.Peek(l.owner)
		if r.fails > 0 {
			line = &b.retries
		}
	}
	if busy {
		return
	}
	if b.crowded && l.owner == "" {
		size, age = 1, 0 // the oldest first
	}
	at := l.since.Add(age)
	switch {
	case l.count < size:
		l.ready = time.Time{}
	case l.ready.IsZero():
		l.ready = now
	}
	if !l.ready.IsZero() && l.ready.Before(at) {
		at = l.ready
	}
	if r.until.After(at) {
		at = r.until
	}
	l.line = line
	line.set(l, at)
}

// lookup takes a host that is to be resolved now.
func (b *book) lookup(now time.Time) *entry {
	e, ok := b.names.pop(now)
	if !ok {
		return nil
	}
	e.moved = nil
	b.put(e, working, time.Time{}, now)
	return e
}

// resolved enters whose a host is. One of ours stays in work: its URLs are to
// be moved.
func (b *book) resolved(e *entry, res Resolution, now time.Time) {
	for other := range b.subnets[res.Subnet] { // any one: they all say the same
		if other.res.Kind != res.Kind || other.res.Owner != res.Owner {
			b.requeue(res.Subnet, now)
		}
		break
	}
	e.misses = 0
	switch {
	case res.Kind == Own:
		return
	case slices.Contains(e.moved, res.Subnet):
		b.put(e, unresolved, now, now)
		return
	case res.Kind == Unowned:
		res.Owner = ""
		e.res = res
		b.put(e, nursery, time.Time{}, now)
		return
	}
	e.res = res
	b.put(e, foreign, time.Time{}, now)
}

// again lets a host be resolved once more after a wait.
func (b *book) again(e *entry, wait time.Duration, now time.Time) {
	b.put(e, unresolved, now.Add(wait), now)
}

// disputed lets a host be resolved anew, its home read before, that is taken for
// another's here and for ours by a finder, who found it at that address. It says whether
// that is so. Where no home is settled yet each peer may else send it to the next, in
// a circle: now one of them settles it.
func (b *book) disputed(name string, found netip.Addr, now time.Time) bool {
	e := b.hosts[name]
	if e == nil || e.state != foreign {
		return false
	}
	e.astray, e.found = true, found
	b.again(e, 0, now)
	return true
}

// reconsider lets every host of a subnet be resolved anew, those included that
// are being resolved right now.
func (b *book) reconsider(p netip.Prefix, now time.Time) {
	for e := range b.working {
		e.moved = append(e.moved, p)
	}
	b.requeue(p, now)
}

func (b *book) requeue(p netip.Prefix, now time.Time) {
	all := make([]*entry, 0, len(b.subnets[p]))
	for e := range b.subnets[p] {
		all = append(all, e)
	}
	for _, e := range all {
		b.put(e, unresolved, now, now)
	}
}

// ofOwner returns the host if it still is that owner's.
func (b *book) ofOwner(name string, owner peer.ID) *entry {
	if e := b.hosts[name]; e != nil && e.state == foreign && e.res.Owner == owner {
		return e
	}
	return nil
}

// left notes that n URLs of a host are in the store no more.
func (b *book) left(name string, n int, now time.Time) {
	if e := b.hosts[name]; e != nil && n > 0 {
		b.change(e, -n, now)
	}
}

// counted notes that the store was seen to hold n URLs of a host, no news of
// it having come since.
func (b *book) counted(name string, news uint64, n int, now time.Time) {
	if e := b.hosts[name]; e != nil && e.news == news && e.count > n {
		b.change(e, n-e.count, now)
	}
}

// claim takes a subnet that is to be claimed now.
func (b *book) claim(now time.Time) (netip.Prefix, bool) {
	l, ok := b.claims.pop(now)
	if !ok {
		return netip.Prefix{}, false
	}
	l.line = nil
	r := b.claiming[l.subnet]
	r.until = time.Time{}
	b.claiming[l.subnet] = r
	return l.subnet, true
}

// claimed ends a claim: the subnet has an owner now, or it is tried again.
func (b *book) claimed(p netip.Prefix, ok bool, now time.Time) {
	r := b.claiming[p]
	delete(b.claiming, p)
	l := b.nurseries[p]
	switch {
	case ok:
		b.reconsider(p, now)
	case l != nil:
		r.until = now.Add(b.cfg.wait(r.fails))
		r.fails++
		b.claiming[p] = r
		b.plan(l, now)
	}
}

// tidy forgets hosts that had no URL for long.
func (b *book) tidy(now time.Time) {
	for b.idle.Len() > 0 {
		e := b.idle.Front().Value.(*entry)
		if b.idle.Len() <= maxIdle && now.Sub(e.idle) < keepIdle {
			return
		}
		b.put(e, unresolved, now, now) // without URLs: gone
	}
}

// until returns how long nothing will be due in any of the lines that count.
func (b *book) until(now time.Time, names, batches, retries, claims bool) time.Duration {
	d := time.Minute
	if names {
		d = b.names.until(now, d)
	}
	if batches {
		d = b.batches.until(now, d)
	}
	if retries {
		d = b.retries.until(now, d)
	}
	if claims {
		d = b.claims.until(now, d)
	}
	return d
}
