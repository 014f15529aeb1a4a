package fabric

import (
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"time"
)

// window is the number of bytes that a line buffers before its writer blocks, about as
// many as the buffers of a socket.
const window = 256 << 10

// errDead is the error of operations on a machine that was killed.
var errDead = errors.New("fabric: machine is dead")

// mark is the kind of a segment: data, or an end of the line.
type mark uint8

const (
	plain mark = iota
	fin
	rst
)

// segment is one write in flight.
type segment struct {
	data []byte
	at   time.Time // arrival, if the line is not blocked
	end  mark
}

// line is one direction of a connection: a queue in the order of arrival.
type line struct {
	way way

	mu      sync.Mutex
	queue   []segment
	size    int // bytes in queue
	blocked bool
	delay   time.Duration
	loss    float64   // share of segments that are retransmitted
	sent    uint64    // number of segments sent
	last    time.Time // arrival of the latest segment
	readErr error     // error of every read from now on
	sendErr error     // error of every write from now on
	// readBy and sendBy are the deadlines; zero is none.
	readBy, sendBy time.Time
	woken          chan struct{} // closed and replaced at every change
}

func newLine(w way, delay time.Duration, loss float64) *line {
	return &line{way: w, delay: delay, loss: loss, woken: make(chan struct{})}
}

// do calls change with l.mu held and wakes both ends.
func (l *line) do(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	close(l.woken)
	l.woken = make(chan struct{})
}

func (l *line) set(blocked bool, delay time.Duration, loss float64) {
	l.mu.Lock()
	same := l.blocked == blocked && l.delay == delay && l.loss == loss
	l.mu.Unlock()
	if !same {
		l.do(func() { l.blocked, l.delay, l.loss = blocked, delay, loss })
	}
}

// resend is the first retransmission timeout of a segment; it doubles each time, as in
// TCP.
const resend = 250 * time.Millisecond

// late returns the delay of the next segment due to retransmissions. It is determined
// by the addresses and the segment's number. l.mu is held.
func (l *line) late() (d time.Duration) {
	if l.loss <= 0 {
		return 0
	}
	a, b := l.way.from.As16(), l.way.to.As16()
	l.sent++
	dice := rand.New(rand.NewPCG(binary.BigEndian.Uint64(a[8:])^l.sent,
		binary.BigEndian.Uint64(b[8:])))
	for wait := resend; dice.Float64() < l.loss; wait *= 2 {
		d += wait
	}
	return d
}

// push queues a segment. l.mu is held.
func (l *line) push(s segment) {
	s.at = time.Now().Add(l.delay + l.late())
	if s.at.Before(l.last) {
		s.at = l.last
	}
	l.last = s.at
	l.queue = append(l.queue, s)
	l.size += len(s.data)
}

// end queues a mark after all data that was sent. Later writes fail with err.
func (l *line) end(m mark, err error) {
	l.do(func() {
		if l.sendErr == nil {
			l.sendErr = err
		}
		l.push(segment{end: m})
	})
}

// fail makes reads and writes fail from now on; nil leaves them as they are.
func (l *line) fail(read, send error) {
	l.do(func() {
		if l.readErr == nil {
			l.readErr = read
		}
		if l.sendErr == nil {
			l.sendErr = send
		}
	})
}

// wait waits for a change, or until at if that is not zero. l.mu is held at the call
// and on return.
func (l *line) wait(at time.Time) {
	woken := l.woken
	l.mu.Unlock()
	defer l.mu.Lock()
	if at.IsZero() {
		<-woken
		return
	}
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-woken:
	case <-t.C:
	}
}

// earlier returns the earlier of two times; a zero time is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (l *line) read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		now := time.Now()
		if l.readErr != nil {
			return 0, l.readErr
		}
		if passed(l.readBy, now) {
			return 0, os.ErrDeadlineExceeded
		}
		var next time.Time
		if len(l.queue) > 0 && !l.blocked {
			s := &l.queue[0]
			if !now.Before(s.at) {
				if s.end == plain && len(p) == 0 {
					return 0, nil
				}
				return l.take(s, p)
			}
			next = s.at
		}
		l.wait(earlier(next, l.readBy))
	}
}

// take consumes the head of the queue. l.mu is held.
func (l *line) take(s *segment, p []byte) (int, error) {
	switch s.end {
	case fin:
		l.readErr = io.EOF
		return 0, io.EOF
	case rst:
		l.readErr = syscall.ECONNRESET
		return 0, l.readErr
	}
	full := l.size >= window
	n := copy(p, s.data)
	s.data = s.data[n:]
	l.size -= n
	if len(s.data) == 0 {
		l.queue[0] = segment{}
		l.queue = l.queue[1:]
	}
	if full && l.size < window {
		close(l.woken)
		l.woken = make(chan struct{})
	}
	return n, nil
}

func (l *line) write(p []byte) (n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if l.sendErr != nil {
			return n, l.sendErr
		}
		if passed(l.sendBy, time.Now()) {
			return n, os.ErrDeadlineExceeded
		}
		if len(p) == n {
			return n, nil
		}
		if free := window - l.size; free > 0 {
			m := min(free, len(p)-n)
			l.push(segment{data: append([]byte(nil), p[n:n+m]...)})
			n += m
			close(l.woken)
			l.woken = make(chan struct{})
			continue
		}
		l.wait(l.sendBy)
	}
}

func passed(deadline, now time.Time) bool { return !deadline.IsZero() && !now.Before(deadline) }

// waiting reports whether data was sent that has not been read.
func (l *line) waiting() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue) > 0
}
