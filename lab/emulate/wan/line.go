package wan

import (
	"bytes"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"
)

const (
	// pieceBytes is the maximum size of a piece. A piece arrives when its last byte
	// does, so this limits how much later than in a real network earlier bytes arrive.
	pieceBytes = 2 << 10
	// The window of a line, the number of bytes in flight, is twice the
	// bandwidth-delay product of the link, within these limits.
	minWindow, maxWindow = 64 << 10, 4 << 20
	// pieceCost is added to the size of a piece, so that many small writes cannot use
	// more memory than the window.
	pieceCost = 64
)

// line is one direction of a connection. It delivers bytes in order when they are due.
// At most one sender and one receiver may use it at a time.
//
// A line ends in one of two ways: finish delivers all data first, fail drops data in
// flight.
type line struct {
	window int
	rng    *rand.Rand

	ready, space chan struct{} // capacity 1: wake the receiver, the sender
	dead         chan struct{} // closed by fail
	timer        *time.Timer   // the receiver's

	mu     sync.Mutex
	delay  time.Duration // one way
	jitter time.Duration // at most, one way
	bps    float64
	cut    bool // nothing arrives
	pieces []piece
	held   int       // bytes of pieces, and pieceCost each
	free   time.Time // when the link has sent all queued data
	last   time.Time // due time of the newest piece
	shift  time.Duration
	end    error // returned after the last piece
	endDue time.Time
	cause  error // set by fail
}

// piece is a sequence of bytes that arrives at once.
type piece struct {
	data []byte
	cost int
	due  time.Time
}

func newLine(l Link, rng *rand.Rand) *line {
	flight := 2 * l.Bps * l.RTT.Seconds()
	return &line{
		delay: l.RTT / 2, jitter: l.Jitter / 2, bps: l.Bps, cut: l.Cut, rng: rng,
		window: int(min(max(flight, minWindow), maxWindow)),
		ready:  make(chan struct{}, 1), space: make(chan struct{}, 1), dead: make(chan struct{}),
	}
}

// change sets another link. New data does not overtake data in flight, and the window
// does not change. What a cut has held back arrives, if it is due, when the link is whole again.
func (l *line) change(k Link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay, l.jitter, l.bps, l.cut = k.RTT/2, k.Jitter/2, k.Bps, k.Cut
	wake(l.ready)
}

// send queues all of b, waiting for free space in the window. It returns early when stop
// is closed (os.ErrDeadlineExceeded), after finish (net.ErrClosed), and after fail.
func (l *line) send(b []byte, stop <-chan struct{}) (int, error) {
	for sent := 0; ; {
		select {
		case <-stop:
			return sent, os.ErrDeadlineExceeded
		default:
		}
		n, err := l.put(b[sent:])
		if sent += n; err != nil || sent == len(b) {
			return sent, err
		}
		select {
		case <-l.space:
		case <-stop:
		case <-l.dead:
		}
	}
}

// put queues as much of b as fits into the window.
func (l *line) put(b []byte) (n int, err error) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		return 0, l.cause
	}
	if l.end != nil {
		return 0, net.ErrClosed
	}
	b = b[:min(len(b), max(0, l.window-l.held))]
	if len(b) == 0 {
		return 0, nil
	}
	if len(l.pieces) == 0 {
		wake(l.ready)
	}
	own := bytes.Clone(b)
	for len(own) > 0 {
		p := own[:min(len(own), pieceBytes)]
		own = own[len(p):]
		l.pieces = append(l.pieces, piece{data: p, cost: len(p) + pieceCost,
			due: l.stamp(now, len(p))})
		l.held += len(p) + pieceCost
	}
	return len(b), nil
}

// stamp returns when the last of n bytes that are sent now arrives. Jitter is drawn only
// after the link was idle, so that a burst keeps its shape.
func (l *line) stamp(now time.Time, n int) time.Time {
	if l.free.Before(now) {
		l.free = now
		l.shift = 0
		if l.jitter > 0 {
			l.shift = time.Duration(l.rng.Int64N(int64(l.jitter)))
		}
	}
	l.free = l.free.Add(time.Duration(float64(n) / l.bps * float64(time.Second)))
	if due := l.free.Add(l.delay + l.shift); due.After(l.last) {
		l.last = due
	}
	return l.last
}

// finish ends the line with err after all data sent so far and returns when that is due.
func (l *line) finish(err error) time.Time {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end == nil {
		l.end, l.endDue = err, l.stamp(now, 0)
		wake(l.ready)
		wake(l.space)
	}
	return l.endDue
}

// fail drops data in flight; both ends return err.
func (l *line) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause == nil {
		l.cause = err
		l.pieces, l.held = nil, 0
		close(l.dead)
	}
}

// recv waits until data is due and copies as much of it as fits into p.
func (l *line) recv(p []byte, stop <-chan struct{}) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		select {
		case <-stop:
			return 0, os.ErrDeadlineExceeded
		default:
		}
		n, wait, err := l.take(p, time.Now())
		if n > 0 || err != nil {
			return n, err
		}
		select {
		case <-l.alarm(wait):
		case <-l.ready:
		case <-stop:
		case <-l.dead:
		}
	}
}

// alarm returns a channel that fires after wait, or never for 0.
func (l *line) alarm(wait time.Duration) <-chan time.Time {
	if wait == 0 {
		return nil
	}
	if l.timer == nil {
		l.timer = time.NewTimer(wait)
	} else {
		l.timer.Reset(wait)
	}
	return l.timer.C
}

// take copies data that is due into p. If none is due, it returns how long to wait, or 0
// if no data is in flight or the link is cut.
func (l *line) take(p []byte, now time.Time) (n int, wait time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		return 0, 0, l.cause
	}
	if l.cut {
		return 0, 0, nil
	}
	crowded := l.held > l.window/2
	for n < len(p) && len(l.pieces) > 0 && !l.pieces[0].due.After(now) {
		head := &l.pieces[0]
		c := copy(p[n:], head.data)
		n += c
		if head.data = head.data[c:]; len(head.data) == 0 {
			l.held -= head.cost
			l.pieces = l.pieces[1:]
		}
	}
	if len(l.pieces) == 0 {
		l.pieces = nil
	}
	if crowded && l.held <= l.window/2 { // not earlier, to avoid many small writes
		wake(l.space)
	}
	switch {
	case n > 0:
		return n, 0, nil
	case len(l.pieces) > 0:
		return 0, l.pieces[0].due.Sub(now), nil
	case l.end == nil:
		return 0, 0, nil
	case l.endDue.After(now):
		return 0, l.endDue.Sub(now), nil
	}
	return 0, 0, l.end
}

// wake sends a signal unless one is pending already.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
