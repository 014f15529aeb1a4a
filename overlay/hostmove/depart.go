package hostmove

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/backoff"
	"peerd/overlay/home"
	"peerd/overlay/hosttransfer"
	"peerd/overlay/lease"
	"peerd/store"
)

// move is a host that leaves its home. It is decided, saved, and repeated until it has
// ended.
//
//	decided -> intent on disk -> out of the frontier -> where does it belong?
//	  ours:      record n+1 published -> host record moved -> safe in the new subnet, gone from
//	             the log of the old one, intent deleted -> in the frontier
//	  another's: record n+1 signed -> transferred -> published -> our copy deleted, intent deleted
//	  no owner:  claimed first
//
// From the second step on no peer fetches from the host until it has arrived.
type move struct {
	From   netip.Prefix `cbor:"1,keyasint"`
	To     netip.Prefix `cbor:"2,keyasint"`
	Addr   netip.Addr   `cbor:"3,keyasint"`
	NextAt time.Time    `cbor:"4,keyasint"` // not asked before
	// From is a silent owner's, the host none of ours
	Lease []byte `cbor:"5,keyasint,omitempty"`

	out   bool // of the frontier
	busy  bool
	fails int
	next  time.Time
}

const moveSpace = "homemove/"

var (
	// errAgain says that a move is to be begun again at once.
	errAgain = errors.New("hostmove: the owner of the new home has changed")
	errBusy  = errors.New("hostmove: the subnet is leaving")
	// errUnsafe says that the replicas of the new home do not have a host yet.
	errUnsafe = errors.New("hostmove: the host is not at the replicas of its new home")
)

// relocate decides that a host leaves.
func (w *Monitor) relocate(host string, mv *move) {
	w.mu.Lock()
	if w.moves[host] == nil && !w.arriving[host] && w.adding[host] == 0 {
		w.moves[host] = mv
	}
	w.mu.Unlock()
	w.wake()
}

// loadMoves takes up the moves that a restart has cut short: their hosts leave the
// frontier before anything is fetched.
func (w *Monitor) loadMoves() error {
	err := w.cfg.DB.EachData(moveSpace, func(host string, val []byte) error {
		mv := &move{}
		if err := cbor.Unmarshal(val, mv); err != nil {
			return fmt.Errorf("hostmove: %s: %w", host, err)
		}
		w.moves[host] = mv
		return nil
	})
	for host, mv := range w.moves {
		if err == nil {
			_, err = w.frontier.EvictHost(context.Background(), host) // nothing runs yet
			mv.out = true
		}
	}
	return err
}

// toDepart returns the moves that are due.
func (w *Monitor) toDepart(now time.Time) (tasks []func(context.Context)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	busy := 0
	for _, mv := range w.moves {
		if mv.busy {
			busy++
		}
	}
	for host, mv := range w.moves {
		if busy == tasksAtOnce {
			break
		}
		if mv.busy || mv.next.After(now) {
			continue
		}
		mv.busy = true
		busy++
		tasks = append(tasks, func(ctx context.Context) {
			w.departed(host, mv, w.depart(ctx, host, mv))
		})
	}
	return tasks
}

// departed enters how an attempt went.
func (w *Monitor) departed(host string, mv *move, err error) {
	if err != nil {
		w.log.Info("failed to move host", "host", host, "from", mv.From, "to", mv.To, "err", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	mv.busy = false
	if err == nil {
		delete(w.moves, host)
		return
	}
	if !errors.Is(err, errAgain) {
		mv.next = time.Now().Add(backoff.Double(w.cfg.Tick, time.Minute, mv.fails))
		mv.fails++
	}
}

// depart does what is left to do of a move. When it returns nil the host has left,
// or is no matter of ours any more. whole may last as long as the transfer of a host, and each
// other step taskTimeout.
func (w *Monitor) depart(whole context.Context, host string, mv *move) error {
	ctx, cancel := context.WithTimeout(whole, taskTimeout)
	defer cancel()
	if mv.Lease != nil {
		return w.rescue(ctx, host, mv)
	}
	if w.live(mv.To) {
		if p, err := storedHome(w.cfg.DB, host); err != nil {
			return err
		} else if p == mv.To { // a move within was interrupted
			return w.arriveWithin(ctx, host, mv)
		}
	}
	if !w.live(mv.From) { // it left with its home: the new owner moves it
		return forgetMove(w.cfg.DB, host)
	}
	leave, ok := w.cfg.Subnets.Enter(mv.From)
	if !ok {
		return errBusy
	}
	defer leave()
	if err := w.evict(ctx, host, mv); err != nil {
		return err
	}
	r, err := w.cfg.Homes.Read(ctx, host)
	if errors.Is(err, home.ErrUnsettled) { // the DHT has lost it
		if _, err = w.cfg.Homes.Settle(ctx, host, mv.From); err == nil {
			r, err = w.cfg.Homes.Read(ctx, host)
		}
	}
	if err != nil {
		return err
	}
	if r.Subnet != mv.From && r.Subnet != mv.To {
		mv.To, mv.Addr = r.Subnet, inside(r.Subnet)
	}
	here := w.live(mv.To)
	if !here && outdone(r, mv) {
		return w.giveUp(host, mv)
	}
	var value []byte
	if r.Subnet == mv.From {
		sealed, _ := w.cfg.Subnets.Lease(mv.From)
		value, err = w.cfg.Homes.Draft(ctx, host, mv.From, mv.To, sealed)
	} else {
		value, err = w.cfg.Homes.Value(ctx, host)
	}
	switch {
	case err != nil:
		return err
	case here:
		if r, err = w.cfg.Homes.Announce(ctx, value); err != nil {
			return err
		} else if r.Subnet != mv.To {
			return errAgain
		}
		return w.arriveWithin(ctx, host, mv)
	}
	return w.departThere(whole, host, mv, value)
}

// evict writes the intent down and takes the host out of the frontier.
func (w *Monitor) evict(ctx context.Context, host string, mv *move) error {
	if mv.out {
		return nil
	}
	save := func() error {
		raw, err := cbor.Marshal(mv)
		if err != nil {
			return err
		}
		return w.cfg.DB.Update(func(tx *store.Tx) error { return tx.PutData(moveSpace+host, raw) })
	}
	if err := save(); err != nil {
		return err
	}
	at, err := w.frontier.EvictHost(ctx, host)
	if err != nil {
		return err
	}
	w.mu.Lock()
	mv.out, mv.NextAt = true, at
	w.mu.Unlock()
	return save()
}

func forgetMove(db *store.DB, host string) error {
	return db.Update(func(tx *store.Tx) error { return tx.DeleteData(moveSpace + host) })
}

// arriveWithin does what is left of a move within: the replicas of the old subnet keep the host
// until those of the new one have it.
func (w *Monitor) arriveWithin(ctx context.Context, host string, mv *move) error {
	leave, ok := w.cfg.Subnets.Enter(mv.To)
	if !ok {
		return errBusy
	}
	defer leave()
	var h *store.Host
	err := w.cfg.DB.Update(func(tx *store.Tx) error {
		err := tx.MoveHost(host, mv.To, mv.Addr)
		if err == nil {
			h, err = tx.Host(host)
		}
		return store.IgnoreNotFound(err) // in no frontier: see Lost
	})
	if err != nil {
		return err
	}
	for h != nil && !w.cfg.Subnets.Safe(ctx, mv.To) {
		if backoff.Sleep(ctx, w.cfg.Tick) != nil {
			return errUnsafe
		}
	}
	err = w.cfg.DB.Update(func(tx *store.Tx) error {
		return errors.Join(tx.LogMoved(host, mv.From), tx.DeleteData(moveSpace+host))
	})
	if err != nil {
		return err
	}
	if h != nil {
		w.frontier.AdoptHost(*h, mv.NextAt)
	}
	w.log.Info("moved host", "host", host, "from", mv.From, "to", mv.To)
	return nil
}

// storedHome returns the home subnet of a host in the store; the zero Prefix if it has no record.
func storedHome(db *store.DB, host string) (p netip.Prefix, err error) {
	err = db.View(func(tx *store.Tx) error {
		h, err := tx.Host(host)
		if err == nil {
			p = h.Subnet
		}
		return store.IgnoreNotFound(err)
	})
	return p, err
}

// departThere brings a host to the owner of its new home.
func (w *Monitor) departThere(whole context.Context, host string, mv *move, value []byte) error {
	ctx, cancel := context.WithTimeout(whole, taskTimeout)
	defer cancel()
	l, _, err := w.cfg.Leases.Lookup(ctx, mv.To)
	switch {
	case errors.Is(err, lease.ErrUnowned):
		if err := w.cfg.Subnets.Claim(ctx, mv.To); err != nil {
			return err
		}
		return errAgain
	case err != nil:
		return err
	case l.Owner == w.cfg.Self || w.cfg.Transferrer == nil:
		return errBusy
	}
	var h store.Host
	err = w.cfg.DB.View(func(tx *store.Tx) error {
		rec, err := tx.Host(host)
		if err == nil {
			h = *rec
		}
		return err
	})
	switch {
	case err == nil:
		o := hosttransfer.Offer{Host: host, Addr: mv.Addr, Record: value,
			Wait: max(time.Until(mv.NextAt), 0), Day: h.Day, DayCount: h.DayCount}
		long, cancel := context.WithTimeout(whole, hosttransfer.MaxTime)
		defer cancel()
		err := w.cfg.Transferrer.Transfer(long, l.Owner, o)
		ctx, cancel = context.WithTimeout(whole, taskTimeout)
		defer cancel()
		if err != nil {
			return notReceived(ctx, w.cfg.Subnets, mv.To, l.Owner, err)
		}
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	if _, err := w.cfg.Homes.Announce(ctx, value); err != nil {
		return err
	}
	if err := dropSent(w.cfg.DB, host, mv); err != nil {
		return err
	}
	w.log.Info("moved host", "host", host, "from", mv.From, "to", mv.To, "owner", l.Owner)
	return forgetMove(w.cfg.DB, host)
}

// dropSent deletes a host that its new owner has. If this peer keeps a copy of the new home, the
// host becomes part of it: the copy lacks the host so far, and may be the only one. If the new home
// has become ours, errAgain is returned.
func dropSent(db *store.DB, host string, mv *move) error {
	var to store.Subnet
	err := db.Update(func(tx *store.Tx) (err error) {
		if to, err = tx.Subnet(mv.To); err != nil || to.Phase != store.PhaseReplica {
			return store.IgnoreNotFound(err)
		}
		err = store.IgnoreNotFound(tx.MoveHost(host, mv.To, mv.Addr))
		return errors.Join(err, tx.LogMoved(host, mv.From))
	})
	switch {
	case err != nil || to.Phase == store.PhaseReplica:
		return err
	case to.Phase == store.PhaseNone, to.Phase == store.PhaseStaged:
		return db.DropHost(host)
	}
	return errAgain
}

// notReceived finds out whether another peer owns a new home by now, as after its owner has failed.
// It returns errAgain if so, else the error of the transfer.
func notReceived(
	ctx context.Context, s Subnets, home netip.Prefix, owner peer.ID, failed error,
) error {
	changed, err := s.RefreshOwner(ctx, home, owner, errors.Is(failed, hosttransfer.ErrRefused))
	if err != nil || !changed {
		return errors.Join(failed, err)
	}
	return errAgain
}

// rescue moves a host of a silent owner's to a subnet of ours. Its state is where
// that owner is.
func (w *Monitor) rescue(ctx context.Context, host string, mv *move) error {
	if !w.live(mv.To) {
		return nil // the owner of that subnet will see to it
	}
	value, err := w.cfg.Homes.Draft(ctx, host, mv.From, mv.To, mv.Lease)
	if errors.Is(err, home.ErrMoved) {
		return nil
	}
	if err == nil {
		_, err = w.cfg.Homes.Announce(ctx, value)
	}
	return err
}
