package warc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// The index log of a file that is being written is a text file. Each line is an event:
//
//	+<end> <index line>  an exchange was written, the WARC ends at end
//	+<end>               a record that is not in the index was written
//	!<end> <crc>         checkpoint: the WARC up to end is durable; crc (IEEE, hex) is the
//	                     checksum of all earlier bytes of the log and of "!<end> "
//
// If a log is truncated or damaged, only the part before its last valid checkpoint is
// used.

func appendEvent(b []byte, end int64, e *Entry) []byte {
	b = strconv.AppendInt(append(b, '+'), end, 10)
	if e != nil {
		b = e.appendTo(append(b, ' '))
	}
	return append(b, '\n')
}

func appendCheckpoint(b []byte, end int64, crc uint32) []byte {
	n := len(b)
	b = fmt.Appendf(b, "!%d ", end)
	return fmt.Appendf(b, "%08x\n", crc32.Update(crc, crc32.IEEETable, b[n:]))
}

// event is a line of a log.
type event struct {
	end        int64
	line       []byte // index line or nil; valid until the next event
	checkpoint bool   // the event is a valid checkpoint
	at         int64  // end of the event in the log
}

// readLogFile is readLog for the first n bytes of the log of a file, or all of it if n is negative.
func readLogFile(dir, name string, n int64, fn func(event) error) error {
	f, err := os.Open(filepath.Join(dir, logName(name)))
	if err != nil {
		return err
	}
	defer f.Close()
	if n < 0 {
		return readLog(f, fn)
	}
	return readLog(io.LimitReader(f, n), fn)
}

// readLog calls fn for each event of a log, up to the first invalid one.
func readLog(r io.Reader, fn func(event) error) error {
	br := bufio.NewReaderSize(r, maxLine+64)
	var crc uint32
	var at int64
	for {
		l, err := br.ReadSlice('\n')
		if errors.Is(err, io.EOF) || errors.Is(err, bufio.ErrBufferFull) {
			return nil
		}
		if err != nil {
			return err
		}
		e, ok := parseEvent(l, crc)
		if !ok {
			return nil
		}
		crc = crc32.Update(crc, crc32.IEEETable, l)
		at += int64(len(l))
		e.at = at
		if err := fn(e); err != nil {
			return err
		}
	}
}

// parseEvent parses a line of a log. before is the checksum of the lines before it.
func parseEvent(l []byte, before uint32) (e event, ok bool) {
	num, rest, _ := bytes.Cut(l[1:], []byte(" "))
	end, err := strconv.ParseUint(string(bytes.TrimSuffix(num, []byte("\n"))), 10, 63)
	if err != nil {
		return event{}, false
	}
	e.end = int64(end)
	switch l[0] {
	case '+':
		e.line = bytes.TrimSuffix(rest, []byte("\n"))
		return e, true
	case '!':
		sum := crc32.Update(before, crc32.IEEETable, l[:len(l)-len(rest)])
		e.checkpoint = true
		return e, string(rest) == fmt.Sprintf("%08x\n", sum)
	}
	return event{}, false
}

// linesUpTo returns a function for readLog that calls add with the index lines of exchanges that
// end at or before limit.
func linesUpTo(limit int64, add func(line []byte) error) func(event) error {
	return func(e event) error {
		if e.end > limit || e.checkpoint || len(e.line) == 0 {
			return nil
		}
		return add(e.line)
	}
}
