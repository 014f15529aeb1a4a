package events

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
)

// ErrSchema means that a log was written by a later version of peerd, in which events mean
// something else.
var ErrSchema = errors.New("unknown version of the schema of events")

// maxLine bounds a line; longer ones are skipped.
const maxLine = 4 << 20

// maxTime is the time of an event at most: the year 2255. It fits into the numbers of JSON readers
// everywhere.
const maxTime = 9_000_000_000_000_000

// Reader reads a log, or a merged one.
type Reader struct {
	// Skipped is the number of lines that were not read: they were cut off, or are of a kind that
	// this version does not know.
	Skipped int

	r    *bufio.Reader
	made map[Kind]reflect.Type
	self string
	run  string
}

// NewReader returns a Reader of r.
func NewReader(r io.Reader) *Reader {
	made := map[Kind]reflect.Type{}
	for _, e := range Kinds() {
		made[e.kind()] = reflect.TypeOf(e).Elem()
	}
	return &Reader{r: bufio.NewReaderSize(r, 1<<16), made: made}
}

// Next returns the next event, or io.EOF. Events before the first start of a log that is not
// merged have no Self.
func (r *Reader) Next() (Event, error) {
	for {
		line, err := r.line()
		if err != nil {
			return nil, err
		}
		if e, err := r.parse(line); err != nil || e != nil {
			return e, err
		}
		if len(line) > 0 {
			r.Skipped++
		}
	}
}

// parse returns the event of a line; nil if it is none.
func (r *Reader) parse(line []byte) (Event, error) {
	var h Header
	if json.Unmarshal(line, &h) != nil || r.made[h.Kind] == nil || h.T <= 0 || h.T > maxTime {
		return nil, nil //nolint:nilerr // it is none
	}
	e := reflect.New(r.made[h.Kind]).Interface().(Event)
	if json.Unmarshal(line, e) != nil {
		return nil, nil //nolint:nilerr // it is none
	}
	if s, ok := e.(*Start); ok {
		if s.Schema > Schema {
			return nil, fmt.Errorf("%w: %d, want at most %d", ErrSchema, s.Schema, Schema)
		}
		r.self, r.run = s.Self, s.Run
	}
	if head := e.Head(); head.Self == "" {
		head.Self, head.Run = r.self, r.run
	}
	return e, nil
}

// line returns the next line without its end, empty if it is too long.
func (r *Reader) line() ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := r.r.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxLine; !long {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (!errors.Is(err, io.EOF) || len(line) == 0 && !long):
			return nil, err
		}
		if long {
			r.Skipped++
			return nil, nil
		}
		return bytes.TrimSpace(line), nil
	}
}
