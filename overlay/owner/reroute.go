package owner

import (
	"net/netip"
	"time"

	"peerd/store"
)

// rerouteBatch bounds the URLs in memory while a subnet is yielded.
const rerouteBatch = 1000

// rerouteAll makes what is queued in a paused subnet pending, as URLs that this peer found, for the
// other owner.
func (e *env) rerouteAll(p netip.Prefix) error {
	hosts, err := e.cfg.DB.HostsOf(p)
	for _, h := range hosts {
		if err == nil {
			err = e.reroute(h)
		}
	}
	return err
}

// reroute routes what is queued at a host of a paused subnet.
func (e *env) reroute(h store.Host) error {
	now := time.Now()
	var last []byte
	for {
		var found []store.Pending
		err := e.cfg.DB.View(func(tx *store.Tx) error {
			return tx.Queue(h.Name, last, func(e store.Entry) (bool, error) {
				found = append(found, pendingURL(e, now, h.Addr))
				last = e.Key
				return len(found) < rerouteBatch, nil
			})
		})
		if err != nil || len(found) == 0 {
			return err
		}
		// The subnet is paused, so all become pending.
		if err := e.cfg.Outbox.Route(found); err != nil {
			return err
		}
	}
}

// rerouteAfter routes what was queued in a paused subnet after a position in its log and
// still is. What waits in the outbox is sent anyway.
func (e *env) rerouteAfter(p netip.Prefix, after uint64) error {
	for more := true; more; {
		var found []store.Pending
		err := e.cfg.DB.View(func(tx *store.Tx) error {
			more = false
			return tx.LogRecords(p, after, func(seq uint64, raw []byte) (bool, error) {
				fs, err := queuedBy(tx, raw)
				found, after = append(found, fs...), seq
				more = len(found) >= rerouteBatch
				return !more, err
			})
		})
		if err == nil && len(found) > 0 {
			err = e.cfg.Outbox.Route(found)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// queuedBy returns the URLs that a record of the log has queued and that are
// queued still.
func queuedBy(tx *store.Tx, raw []byte) (found []store.Pending, err error) {
	ops, err := store.DecodeOps(raw)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	for _, o := range ops {
		if o.Kind != store.OpEntry || o.Seq == 0 || o.Entry.Kind.Revisit() {
			continue
		}
		err := tx.QueueAt(o.Name, o.Depth, o.Seq-1, func(e store.Entry) (bool, error) {
			if _, seq := e.Position(); seq == o.Seq {
				found = append(found, pendingURL(e, now, netip.Addr{}))
			}
			return false, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// pendingURL converts a queued URL to a pending URL for another owner. Others may have found it.
func pendingURL(e store.Entry, now time.Time, hint netip.Addr) store.Pending {
	return store.Pending{
		URL: e.URL, Depth: e.Depth, Found: now, Hint: hint, Kind: e.Kind & store.KindSitemap,
		Hops: e.Hops, Finder: store.FinderRelayed,
	}
}

// promoteLinks adds the undelivered outlinks of the old owner's pages to our pending
// URLs. It runs before the subnet is ours and is repeated if interrupted.
func (e *env) promoteLinks(p netip.Prefix) error {
	byHost, err := e.cfg.DB.PromoteOutlinks(p)
	if len(byHost) > 0 {
		e.cfg.Outbox.PendingAdded(byHost)
	}
	return err
}
