package node

import (
	"fmt"
	"sync"
	"time"

	"peerd/store"
)

// forever is the end of a pause without one. pausePoll is how often it is looked at whether a
// pause has ended.
var forever = time.Unix(1<<40, 0)

const pausePoll = time.Second

// A pause is the time in which the operator wants nothing to be fetched. It is like the time
// outside crawl.hours, but begins at once: subnets with work are handed over. It outlives the
// process. Its methods are safe for concurrent use.
type pause struct {
	db     *store.DB
	saving sync.Mutex // held by set, which waits for the disk

	mu    sync.Mutex // not held during I/O: the frontier waits for it
	until time.Time  // the zero time: not paused
}

// openPause reads what was stored.
func (n *Node) openPause() error {
	var ms int64
	if err := n.db.Meta(metaPause, &ms); err != nil {
		return err
	}
	n.pause = &pause{db: n.db}
	if ms > 0 {
		n.pause.until = time.UnixMilli(ms)
	}
	return nil
}

// set pauses until a time; the zero time ends the pause. It returns when that is on disk.
func (p *pause) set(until time.Time) error {
	p.saving.Lock()
	defer p.saving.Unlock()
	var ms int64
	if !until.IsZero() {
		ms = until.UnixMilli()
	}
	if err := p.db.PutMeta(metaPause, ms); err != nil {
		return fmt.Errorf("save pause: %w", err)
	}
	p.mu.Lock()
	p.until = until
	p.mu.Unlock()
	return p.db.Sync()
}

// wait returns for how long nothing may be fetched, at most pausePoll; 0: not paused.
func (p *pause) wait(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return min(max(0, p.until.Sub(now)), pausePoll)
}

// describe says until when this peer pauses; "": it does not.
func (p *pause) describe(now time.Time) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.until.After(now):
		return ""
	case p.until.Equal(forever):
		return "paused by the operator"
	}
	return "paused by the operator until " + p.until.Local().Format("2006-01-02 15:04:05")
}

// Pause stops fetching for a time, or until Resume if that is 0, and hands subnets with work over.
// Fetches in flight are completed.
func (n *Node) Pause(d time.Duration) error {
	until := forever
	if d > 0 {
		until = time.Now().Add(d).Round(0) // not by the monotonic clock, which stops in a sleep
	}
	n.log.Info("paused by the operator", "for", d)
	return n.pause.set(until)
}

// Resume ends a pause.
func (n *Node) Resume() error {
	n.log.Info("resumed by the operator")
	return n.pause.set(time.Time{})
}

// untilOpen returns how long this peer fetches nothing, by its hours, a pause, or its volume of
// traffic; 0: it may.
func (n *Node) untilOpen(now time.Time) time.Duration {
	return max(n.crawlSettings().Hours.Wait(now), n.pause.wait(now), n.untilVolume(now))
}
