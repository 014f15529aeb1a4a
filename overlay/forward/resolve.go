package forward

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"peerd/store"
)

// maxWrites bounds the URLs that one transaction forgets: what a store takes
// in one piece, whatever the length of the URLs.
const maxWrites = 1000

// resolve asks whose a host is, and moves its URLs when it is ours. If the store has
// no room for that it comes again.
func (f *Forwarder) resolve(ctx context.Context, e *entry) error {
	err := f.resolveOnce(ctx, e)
	if store.IsFull(err) {
		f.again(e)
	}
	return err
}

func (f *Forwarder) resolveOnce(ctx context.Context, e *entry) error {
	astray, hint := f.wentAstray(e)
	if !hint.IsValid() {
		var err error
		if hint, err = f.hint(e.name); err != nil {
			return err
		}
	}
	if astray {
		if err := f.cfg.Resolver.Astray(ctx, e.name); err != nil {
			f.log.Debug("home not read anew", "host", e.name, "err", err)
		}
	}
	res, err := f.cfg.Resolver.Resolve(ctx, e.name, hint)
	if err == nil && (res.Kind < Own || res.Kind > Unowned || res.Kind == Foreign && res.Owner == "") {
		err = errors.New("forward: a resolution that says nothing")
	}
	switch {
	case ctx.Err() != nil:
		return nil // nothing is lost: it is all in the store
	case errors.Is(err, ErrGone) && !f.cfg.Resolver.Alive(ctx):
		f.log.Warn("no name can be looked up; the URLs wait", "host", e.name, "err", err)
		f.again(e)
		return nil
	case errors.Is(err, ErrGone):
		f.log.Info("the URLs of a host were dropped", "host", e.name, "err", err)
		return f.drop(e)
	case errors.Is(err, ErrUnresolved):
		return f.missed(ctx, e, err)
	case store.IsFull(err):
		return err
	case err != nil:
		f.log.Debug("host not resolved", "host", e.name, "err", err)
		f.again(e)
		return nil
	}
	f.with(func(b *book) { b.resolved(e, res, time.Now()) })
	if res.Kind == Own {
		return f.enqueue(e)
	}
	return nil
}

// wentAstray says once whether the host's home was found to be another, and at which
// address of ours a finder takes it to be, if one does.
func (f *Forwarder) wentAstray(e *entry) (astray bool, found netip.Addr) {
	f.with(func(*book) {
		astray, found = e.astray, e.found
		e.astray, e.found = false, netip.Addr{}
	})
	return astray, found
}

// missed counts a failed look-up, and after the last one gives the host up; unless
// it is not the host but our own resolver that fails.
func (f *Forwarder) missed(ctx context.Context, e *entry, err error) error {
	tries := 0
	f.with(func(b *book) {
		e.misses++
		tries = e.misses
		if tries < f.cfg.NameTries {
			b.again(e, f.cfg.nameWait(tries-1), time.Now())
		}
	})
	if tries < f.cfg.NameTries {
		f.log.Debug("name not looked up", "host", e.name, "tries", tries, "err", err)
		return nil
	}
	if !f.cfg.Resolver.Alive(ctx) {
		f.log.Warn("no name can be looked up; the URLs wait", "host", e.name, "err", err)
		f.with(func(b *book) {
			e.misses = f.cfg.NameTries - 1
			b.again(e, min(f.cfg.nameWait(tries-1), f.cfg.MaxRetry), time.Now())
		})
		return nil
	}
	if ctx.Err() != nil {
		return nil
	}
	f.log.Warn("the URLs of a host were given up: its name cannot be looked up", "host", e.name, "tries", tries, "err", err)
	return f.drop(e)
}

// again lets a host be resolved once more after a wait.
func (f *Forwarder) again(e *entry) {
	f.with(func(b *book) {
		b.again(e, f.cfg.wait(e.fails), time.Now())
		e.fails++
	})
}

// hint returns a finder's idea of a host's address, if one of the first URLs
// that wait has one.
func (f *Forwarder) hint(name string) (addr netip.Addr, err error) {
	looked := 0
	err = f.cfg.DB.View(func(tx *store.Tx) error {
		return tx.Deferred(name, func(p store.Pending) (bool, error) {
			looked++
			addr = p.Hint
			return !addr.IsValid() && looked < 16, nil
		})
	})
	return addr, err
}

// enqueue moves what waits for one of our own hosts into its queue.
func (f *Forwarder) enqueue(e *entry) error {
	for more := true; more; {
		news := f.news(e)
		var moved int
		var err error
		moved, more, err = f.cfg.Sink.Enqueue(e.name)
		f.with(func(b *book) {
			b.left(e.name, moved, time.Now())
			if err == nil && !more {
				b.counted(e.name, news, 0, time.Now())
			}
		})
		if store.IsFull(err) {
			return err
		}
		if err != nil { // the subnet has left again, or is about to
			f.log.Debug("host not ready for its URLs", "host", e.name, "err", err)
			f.again(e)
			return nil
		}
	}
	f.with(func(b *book) {
		e.fails = 0
		b.again(e, 0, time.Now()) // what has come meanwhile
	})
	return nil
}

func (f *Forwarder) news(e *entry) (n uint64) {
	f.with(func(*book) { n = e.news })
	return n
}

// drop forgets all URLs of a host, counted as failed.
func (f *Forwarder) drop(e *entry) error {
	for {
		news := f.news(e)
		var urls []store.URL
		err := f.cfg.DB.View(func(tx *store.Tx) error {
			return tx.Deferred(e.name, func(p store.Pending) (bool, error) {
				urls = append(urls, p.URL)
				return len(urls) < maxWrites, nil
			})
		})
		if err != nil {
			return err
		}
		if len(urls) == 0 {
			f.with(func(b *book) {
				e.misses, e.fails = 0, 0
				b.counted(e.name, news, 0, time.Now())
				b.again(e, 0, time.Now())
			})
			return nil
		}
		for _, u := range urls {
			f.gone.Add(u.Digest(), time.Now())
		}
		if err := f.forget(urls, store.Counters{}, func(n int) store.Counters {
			return store.Counters{Failed: int64(n)}
		}); err != nil {
			return err
		}
	}
}

// forget takes URLs out of the store in as many transactions as it needs. each
// says what to count for so many, plus once what once says.
func (f *Forwarder) forget(urls []store.URL, once store.Counters, each func(n int) store.Counters) error {
	for first := true; first || len(urls) > 0; first = false {
		part := urls[:min(len(urls), maxWrites)]
		urls = urls[len(part):]
		byHost := map[string]int{}
		err := f.cfg.DB.Update(func(tx *store.Tx) error {
			clear(byHost)
			n := 0
			for _, u := range part {
				there, err := tx.Waiting(u)
				if err == nil && there {
					err = tx.Undefer(u)
					n++
					byHost[u.Host()]++
				}
				if err != nil {
					return err
				}
			}
			if first {
				tx.Count(once)
			}
			tx.Count(each(n))
			return nil
		})
		if err != nil {
			return err
		}
		f.with(func(b *book) {
			for h, n := range byHost {
				b.left(h, n, time.Now())
			}
		})
	}
	return nil
}

// claim tries to have a subnet owned.
func (f *Forwarder) claim(ctx context.Context, subnet netip.Prefix) {
	err := f.cfg.Resolver.Claim(ctx, subnet)
	f.with(func(b *book) { b.claimed(subnet, err == nil, time.Now()) })
	if err != nil {
		f.log.Debug("subnet not claimed", "subnet", subnet, "err", err)
	}
}
