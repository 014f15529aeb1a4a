package outbox

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"peerd/store"
)

// maxWrites bounds the URLs deleted in one transaction, to fit into the store's limit for URLs
// of any length.
const maxWrites = 1000

// resolve looks up the owner of a host and moves its URLs if that is this peer. If the store is
// full, it is retried.
func (f *Forwarder) resolve(ctx context.Context, e *entry) error {
	err := f.resolveOnce(ctx, e)
	if store.IsNoSpace(err) {
		f.retryResolve(e)
	}
	return err
}

func (f *Forwarder) resolveOnce(ctx context.Context, e *entry) error {
	reread, hint := f.takeHomeCorrection(e)
	if !hint.IsValid() {
		var err error
		if hint, err = f.hint(e.name); err != nil {
			return err
		}
	}
	if reread {
		if err := f.cfg.Resolver.RefreshHome(ctx, e.name); err != nil {
			f.log.Debug("failed to read home record again", "host", e.name, "err", err)
		}
	}
	res, err := f.cfg.Resolver.Resolve(ctx, e.name, hint)
	invalid := res.Kind < Own || res.Kind > Unowned || res.Kind == Foreign && res.Owner == ""
	if err == nil && invalid {
		err = errors.New("outbox: empty resolution")
	}
	name, isName := errors.AsType[*NameError](err)
	switch {
	case ctx.Err() != nil:
		return nil //nolint:nilerr // nothing is lost: the URLs are in the store
	case err != nil && !f.cfg.Node.Online(): // the error says nothing about the host
		f.withTable(func(t *hostTable) { t.resolveAfter(e, 0, time.Now()) })
		return nil
	case errors.Is(err, ErrGone):
		return f.giveUp(e, store.GivenUp{
			Outcome: store.OutcomeRefused, Error: store.ErrorText(err), Tries: 1,
		})
	case isName:
		return f.nameFailed(e, name)
	case store.IsNoSpace(err):
		return err
	case err != nil:
		f.log.Debug("failed to resolve host", "host", e.name, "err", err)
		f.retryResolve(e)
		return nil
	}
	f.withTable(func(t *hostTable) { t.resolved(e, res, time.Now()) })
	if res.Kind == Own {
		return f.enqueue(e)
	}
	return nil
}

// takeHomeCorrection reports, once, whether the home record of the host must be read again.
// found is the address in one of our subnets at which a finder has seen the host, if any.
func (f *Forwarder) takeHomeCorrection(e *entry) (reread bool, found netip.Addr) {
	f.withTable(func(*hostTable) {
		reread, found = e.rereadHome, e.foundAddr
		e.rereadHome, e.foundAddr = false, netip.Addr{}
	})
	return reread, found
}

// retryResolve schedules the next attempt to resolve a host, with back-off.
func (f *Forwarder) retryResolve(e *entry) {
	f.withTable(func(t *hostTable) {
		t.resolveAfter(e, f.cfg.backoff(e.fails), time.Now())
		e.fails++
	})
}

// hint returns the address that a finder has seen for a host, if one of the first pending URLs
// has one.
func (f *Forwarder) hint(name string) (addr netip.Addr, err error) {
	looked := 0
	err = f.cfg.DB.View(func(tx *store.Tx) error {
		return tx.PendingOf(name, func(p store.Pending) (bool, error) {
			looked++
			addr = p.Hint
			return !addr.IsValid() && looked < 16, nil
		})
	})
	return addr, err
}

// enqueue moves the pending URLs of a host of this peer into its queue.
func (f *Forwarder) enqueue(e *entry) error {
	for more := true; more; {
		adds := f.adds(e)
		var moved int
		var err error
		moved, more, err = f.cfg.Node.Enqueue(e.name)
		f.withTable(func(t *hostTable) {
			t.removed(e.name, moved, time.Now())
			if err == nil && !more {
				t.setCount(e.name, adds, 0, time.Now())
			}
		})
		if store.IsNoSpace(err) {
			return err
		}
		if err != nil { // the subnet has left or is about to leave
			f.log.Debug("failed to enqueue URLs", "host", e.name, "err", err)
			f.retryResolve(e)
			return nil //nolint:nilerr // the host is resolved again
		}
	}
	f.withTable(func(t *hostTable) {
		e.fails = 0
		t.resolveAfter(e, 0, time.Now()) // URLs may have been added meanwhile
	})
	return nil
}

func (f *Forwarder) adds(e *entry) (n uint64) {
	f.withTable(func(*hostTable) { n = e.adds })
	return n
}

// deleteSent deletes delivered URLs from the store in as many transactions as necessary, and
// counts them. Those that were marked as changed meanwhile remain. There may be none.
func (f *Forwarder) deleteSent(sent []item) error {
	for first := true; first || len(sent) > 0; first = false {
		part := sent[:min(len(sent), maxWrites)]
		sent = sent[len(part):]
		byHost := map[string]int{}
		err := f.cfg.DB.Update(func(tx *store.Tx) error {
			clear(byHost)
			n := 0
			for _, it := range part {
				p, err := tx.Pending(it.URL)
				if errors.Is(err, store.ErrNotFound) ||
					err == nil && p.Kind.Changed() && !it.Kind.Changed() {
					continue
				}
				if err == nil {
					err = tx.RemovePending(it.URL)
				}
				if err != nil {
					return err
				}
				n++
				byHost[it.URL.Host()]++
			}
			if first {
				tx.Count(store.Counters{BatchesSent: 1})
			}
			tx.Count(store.Counters{URLsSent: int64(n)})
			return nil
		})
		if err != nil {
			return err
		}
		f.withTable(func(t *hostTable) {
			for h, n := range byHost {
				t.removed(h, n, time.Now())
			}
		})
	}
	return nil
}

// claim claims a subnet.
func (f *Forwarder) claim(ctx context.Context, subnet netip.Prefix) {
	err := f.cfg.Resolver.Claim(ctx, subnet)
	f.withTable(func(t *hostTable) { t.claimDone(subnet, err == nil, time.Now()) })
	if err != nil {
		f.log.Debug("failed to claim subnet", "subnet", subnet, "err", err)
	}
}
