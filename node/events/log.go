package events

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"
)

const (
	// writeEvery is the longest time for which events are only in memory.
	writeEvery = 500 * time.Millisecond
	// maxUnwritten bounds the lines in memory, in bytes.
	maxUnwritten = 8 << 20
)

// Log is the event log of one run of a peer. Its methods are safe for concurrent use, but for Run
// and Close.
type Log struct {
	begin time.Time // with the monotonic clock
	log   *slog.Logger
	file  *os.File
	max   int64

	// Used by Run and Close only.
	size   int64 // of the file
	broken bool  // the last line is not complete
	failed bool  // the last write failed, which was logged

	mu    sync.Mutex
	lines []byte
	lost  int64 // events that were dropped since the last line
}

// Open continues the event log in a file, which it creates if necessary, with a new run. The file
// ends at max bytes; 0: no limit. log receives errors of writing.
func Open(name string, max int64, s Start, log *slog.Logger) (*Log, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open event log: %w", err)
	}
	l := &Log{begin: time.Now(), log: log, file: f, max: max}
	if l.size, l.broken, err = tail(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("open event log %s: %w", name, err)
	}
	s.Schema, s.Run = Schema, strconv.FormatInt(l.begin.UnixMicro(), 36)
	l.Add(&s)
	return l, nil
}

// tail returns the size of a file, and whether its last line has no end.
func tail(f *os.File) (size int64, broken bool, err error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return 0, false, err
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], info.Size()-1)
	return info.Size(), last[0] != '\n', err
}

// At returns t as the T of an event. t must be of this process.
func (l *Log) At(t time.Time) int64 {
	return l.begin.UnixMicro() + t.Sub(l.begin).Microseconds()
}

// Add adds an event that has just happened, and sets its Kind. Events that would take too much
// memory, because the disk does not keep up, are counted and dropped.
func (l *Log) Add(e Event) {
	h := e.Head()
	h.T, h.Kind = 0, e.kind()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil { // a number that is not finite
		l.log.Error("failed to encode event", "kind", h.Kind, "err", err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines)+b.Len() > maxUnwritten {
		l.lost++
		return
	}
	if n := l.lost; n > 0 {
		l.lost = 0
		l.appendLine(fmt.Appendf(nil, "{\"kind\":%q,\"count\":%d}\n", new(Lost).kind(), n))
	}
	l.appendLine(b.Bytes())
}

// appendLine adds a line without its time, which is set here so that lines are in order.
func (l *Log) appendLine(line []byte) {
	l.lines = append(l.lines, `{"t":`...)
	l.lines = strconv.AppendInt(l.lines, l.At(time.Now()), 10)
	l.lines = append(l.lines, ',')
	l.lines = append(l.lines, line[1:]...)
}

// Run writes the log until ctx ends.
func (l *Log) Run(ctx context.Context) error {
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	var spare []byte
	for {
		spare = l.write(spare)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// write writes what is in memory, and returns the memory. What cannot be written is lost: a peer
// does not stop because of its event log.
func (l *Log) write(spare []byte) []byte {
	l.mu.Lock()
	lines := l.lines
	l.lines = spare[:0]
	l.mu.Unlock()
	if len(lines) == 0 {
		return lines
	}
	all := bytes.Count(lines, []byte{'\n'})
	if l.broken {
		lines = append([]byte{'\n'}, lines...)
	}
	if l.max > 0 && l.size+int64(len(lines)) > l.max {
		if l.size <= l.max {
			l.log.Warn("stopped the event log: it has reached events.max_size", "bytes", l.size)
		}
		l.size = l.max + 1
		return lines
	}
	n, err := l.file.Write(lines)
	l.size += int64(n)
	if err != nil {
		if !l.failed { // not again each time, as on a full disk
			l.log.Error("failed to write event log", "err", err)
		}
		lost := min(bytes.Count(lines[n:], []byte{'\n'}), all)
		l.mu.Lock()
		l.lost += int64(lost)
		l.mu.Unlock()
	}
	l.failed = err != nil
	l.broken = n > 0 && lines[n-1] != '\n' || n == 0 && l.broken
	return lines
}

// Close writes what is in memory and closes the file. Run must have returned.
func (l *Log) Close() error {
	l.write(nil)
	return l.file.Close()
}
