package handover

import (
	"errors"
	"fmt"
	"time"

	"peerd/store"
)

// errChunk is wrapped by what is said of a chunk that no honest owner sends.
var errChunk = errors.New("handover: bad chunk")

// maxWrites bounds the records that one transaction writes: what a store takes
// in one piece, whatever their length.
const maxWrites = 1000

// intake stores the chunks of one handover.
type intake struct {
	r      *Receiver
	o      Offer
	hosts  []store.Host
	counts map[string]*count
	got    prepared
}

// count is what has come of one host.
type count struct {
	queued, seen int64
	due          time.Time // the first visit; zero if there is none
}

// visit takes in a visit.
func (n *count) visit(v store.Visit) {
	if n.due.IsZero() || v.Due.Before(n.due) {
		n.due = v.Due
	}
}

func newIntake(r *Receiver, o Offer) *intake {
	return &intake{r: r, o: o, counts: map[string]*count{}}
}

// take stores one chunk.
func (in *intake) take(c chunk) error {
	if err := in.check(c); err != nil {
		return err
	}
	if c.Record != nil {
		if err := in.begin(*c.Record, c.Rest); err != nil {
			return err
		}
	}
	n := in.counts[c.Host]
	n.queued += int64(len(c.Entries))
	n.seen += int64(len(c.Seen))
	in.got.Entries += int64(len(c.Entries))
	in.got.Seen += int64(len(c.Seen))
	in.got.Visits += int64(len(c.Visits))
	for _, v := range c.Visits {
		n.visit(v)
	}
	for i := range c.Entries {
		e := &c.Entries[i]
		e.Depth, e.Tries = min(max(e.Depth, 0), maxDepth), min(max(e.Tries, 0), maxTries)
		e.Hops = min(max(e.Hops, 0), maxHops)
		e.Kind &= store.KindSitemap | store.KindRevisit
	}
	err := in.r.DB.Update(func(tx *store.Tx) error {
		for origin, v := range c.Robots {
			if err := tx.PutRobots(origin, v); err != nil {
				return err
			}
		}
		if c.State != nil {
			if err := tx.PutState(c.Host, c.State); err != nil {
				return err
			}
		}
		return tx.Import(c.Host, c.Entries, nil)
	})
	if err == nil && len(c.Visits) > 0 {
		err = in.r.DB.Update(func(tx *store.Tx) error {
			for _, v := range c.Visits {
				v.Depth = min(max(v.Depth, 0), maxDepth)
				v.Kind &= store.KindSitemap
				if err := tx.PutVisit(v); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for seen := c.Seen; err == nil && len(seen) > 0; {
		part := seen[:min(len(seen), maxWrites)]
		seen = seen[len(part):]
		err = in.r.DB.Update(func(tx *store.Tx) error { return tx.Import(c.Host, nil, part) })
	}
	return err
}

// check looks at a chunk before anything of it is used.
func (in *intake) check(c chunk) error {
	if len(c.Entries) > maxChunkEntries || len(c.Seen) > maxChunkSeen || len(c.Robots) > maxRobots ||
		len(c.Visits) > maxChunkVisits || len(c.State) > maxState {
		return fmt.Errorf("%w: too large", errChunk)
	}
	if in.got.Hosts >= maxHosts || in.got.Entries >= maxEntries || in.got.Seen >= maxSeen || in.got.Visits >= maxSeen {
		return fmt.Errorf("%w: the subnet is larger than any", errChunk)
	}
	_, known := in.counts[c.Host]
	if known != (c.Record == nil) {
		return fmt.Errorf("%w: host %.100q has no record, or two", errChunk, c.Host)
	}
	if h := c.Record; h != nil && (h.Name != c.Host || h.Name == "" || len(h.Name) > maxName ||
		h.Subnet != in.o.Subnet || store.SubnetOf(h.Addr) != in.o.Subnet) {
		return fmt.Errorf("%w: host %.100q does not belong here", errChunk, c.Host)
	}
	for origin := range c.Robots {
		u := store.URL(origin)
		if len(origin) > maxURL || u.Host() != c.Host || u.Origin() != origin {
			return fmt.Errorf("%w: origin %.100q is not of host %.100q", errChunk, origin, c.Host)
		}
	}
	for _, e := range c.Entries {
		if err := in.checkURL(c.Host, e.URL); err != nil {
			return err
		}
	}
	for _, v := range c.Visits {
		if len(v.History) > maxHistory {
			return fmt.Errorf("%w: a history of %d bytes", errChunk, len(v.History))
		}
		if err := in.checkURL(c.Host, v.URL); err != nil {
			return err
		}
	}
	return nil
}

func (in *intake) checkURL(host string, u store.URL) error {
	if len(u) > maxURL || u.Host() != host {
		return fmt.Errorf("%w: url %.100q is not of host %.100q", errChunk, u, host)
	}
	if err := in.r.Check(u); err != nil {
		return fmt.Errorf("%w: %w", errChunk, err)
	}
	return nil
}

// begin enters a host. Its record is written before anything else of it, so
// that unstage finds whatever a broken handover leaves.
func (in *intake) begin(h store.Host, rest time.Duration) error {
	// The counts are made anew, and no clock but ours counts.
	now := time.Now()
	fresh := store.Host{Name: h.Name, Subnet: h.Subnet, Addr: h.Addr.Unmap(), Assigned: true}
	if rest = min(max(rest, 0), maxRest); rest > 0 {
		fresh.NextAt = now.Add(rest)
	}
	if today := store.DayOf(now); h.Day == today {
		fresh.Day, fresh.DayCount = today, max(h.DayCount, 0)
	}
	h = fresh
	err := in.r.DB.Update(func(tx *store.Tx) error {
		switch old, err := tx.Host(h.Name); {
		case err == nil:
			return fmt.Errorf("%w: host %q is at home in %v", errChunk, h.Name, old.Subnet)
		case !errors.Is(err, store.ErrNotFound):
			return err
		}
		tx.PutHost(h)
		return nil
	})
	if err != nil {
		return err
	}
	in.got.Hosts++
	in.hosts = append(in.hosts, h)
	in.counts[h.Name] = &count{}
	return nil
}

// finish writes the hosts' records, counted anew, and returns them when all
// is on the disk.
func (in *intake) finish() ([]store.Host, error) {
	for i := range in.hosts {
		h := &in.hosts[i]
		n := in.counts[h.Name]
		h.Pending, h.Known, h.DueAt = n.queued, max(n.queued, n.seen), n.due
	}
	for all := in.hosts; len(all) > 0; {
		part := all[:min(len(all), maxWrites)]
		all = all[len(part):]
		err := in.r.DB.Update(func(tx *store.Tx) error {
			for _, h := range part {
				tx.PutHost(h)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return in.hosts, in.r.DB.Sync()
}
