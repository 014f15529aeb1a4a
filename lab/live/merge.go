package live

import (
	"bufio"
	"compress/gzip"
	"container/heap"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"peerd/node/events"
)

// log is an open event log.
type log struct {
	*events.Reader
	name   string
	closes []io.Closer
	next   events.Event // see logHeap
}

// open opens a log; one with a name that ends in .gz is compressed.
func open(name string) (*log, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	l := &log{name: name, closes: []io.Closer{f}}
	var r io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		z, err := gzip.NewReader(f)
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		r, l.closes = z, []io.Closer{z, f}
	}
	l.Reader = events.NewReader(r)
	return l, nil
}

// Next returns the next event, with the name of the file in errors. A compressed file that was cut
// off ends where it was.
func (l *log) Next() (events.Event, error) {
	e, err := l.Reader.Next()
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, io.EOF
	case err != nil && !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s: %w", l.name, err)
	}
	return e, err
}

func (l *log) close() {
	for _, c := range l.closes {
		c.Close() // it was only read
	}
}

// Each calls fn with all events of some logs, one log after the other, and returns the number of
// lines that were not read.
func Each(names []string, fn func(events.Event) error) (skipped int, err error) {
	for _, name := range names {
		l, err := open(name)
		if err != nil {
			return skipped, err
		}
		for err == nil {
			var e events.Event
			if e, err = l.Next(); err == nil {
				err = fn(e)
			}
		}
		l.close()
		if skipped += l.Skipped; !errors.Is(err, io.EOF) {
			return skipped, err
		}
	}
	return skipped, nil
}

// Merged describes a merged log.
type Merged struct {
	Events, Skipped int // Skipped lines could not be read
	// Runs is the number of runs of peers, Unaligned that of those with a clock that could not
	// be compared with others.
	Runs, Unaligned int
	// Worst is the largest error bound of an event of an aligned run, in microseconds, and Mean the
	// mean of all.
	Worst int64
	Mean  float64
}

// Merge writes the events of several logs to w in the order of their times by a common clock. drift
// is that of Align. It reads each log twice.
func Merge(w io.Writer, names []string, drift float64) (m Merged, err error) {
	var x Exchanges
	m.Skipped, err = Each(names, func(e events.Event) error {
		x.Add(e)
		return nil
	})
	if err != nil {
		return m, err
	}
	clocks, err := x.Align(drift)
	if err != nil {
		return m, err
	}
	m.Unaligned, m.Runs = x.Unaligned(clocks)
	h := &logHeap{clocks: clocks}
	defer func() {
		for _, l := range h.logs {
			l.close()
		}
	}()
	for _, name := range names {
		l, err := open(name)
		if err != nil {
			return m, err
		}
		if err := h.add(l); err != nil {
			return m, err
		}
	}
	out := bufio.NewWriterSize(w, 1<<16)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	aligned := 0
	for h.Len() > 0 {
		l := heap.Pop(h).(*log)
		e := l.next
		if err := enc.Encode(e); err != nil {
			return m, err
		}
		m.Events++
		if b := e.Head().Bound; b >= 0 {
			aligned++
			m.Worst = max(m.Worst, b)
			m.Mean += (float64(b) - m.Mean) / float64(aligned)
		}
		if err := h.add(l); err != nil {
			return m, err
		}
	}
	return m, out.Flush()
}

// logHeap has the logs by the times of their next events.
type logHeap struct {
	clocks *Clocks
	logs   []*log
}

// add reads the next event of a log and adds the log, unless it has ended.
func (h *logHeap) add(l *log) error {
	e, err := l.Next()
	if err != nil {
		l.close()
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return err
	}
	h.clocks.Correct(e.Head())
	l.next = e
	heap.Push(h, l)
	return nil
}

func (h *logHeap) Len() int           { return len(h.logs) }
func (h *logHeap) Less(i, j int) bool { return h.logs[i].next.Head().T < h.logs[j].next.Head().T }
func (h *logHeap) Swap(i, j int)      { h.logs[i], h.logs[j] = h.logs[j], h.logs[i] }
func (h *logHeap) Push(l any)         { h.logs = append(h.logs, l.(*log)) }

// Pop is for package heap.
func (h *logHeap) Pop() any {
	last := h.logs[len(h.logs)-1]
	h.logs = h.logs[:len(h.logs)-1]
	return last
}
