package warc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
)

// The log of a file that is being written is text, a line an event:
//
//	+<end> <line of the index>   an exchange was written, the WARC ends at end
//	+<end>                       the same, of what is not in the index
//	!<end> <crc>                 the WARC up to end is durable; crc (IEEE, hex)
//	                             is that of all bytes of the log before it
//
// A log that ends early or is damaged is worth what stands before its last
// good checkpoint.

func appendEvent(b []byte, end int64, e *entry) []byte {
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
	line       []byte // of the index, or nil; valid until the next event
	checkpoint bool   // a good one
	at         int64  // where the event's line ends in the log
}

// readLog calls fn for each event of a log until it ends or is not understood.
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
		before := crc
		crc = crc32.Update(crc, crc32.IEEETable, l)
		at += int64(len(l))
		num, rest, _ := bytes.Cut(l[1:], []byte(" "))
		end, err := strconv.ParseUint(string(bytes.TrimSuffix(num, []byte("\n"))), 10, 63)
		if err != nil {
			return nil
		}
		e := event{end: int64(end), at: at}
		switch l[0] {
		case '+':
			e.line = bytes.TrimSuffix(rest, []byte("\n"))
		case '!':
			sum := crc32.Update(before, crc32.IEEETable, l[:len(l)-len(rest)])
			if string(rest) != fmt.Sprintf("%08x\n", sum) {
				return nil
			}
			e.checkpoint = true
		default:
			return nil
		}
		if err := fn(e); err != nil {
			return err
		}
	}
}

// checkpoint finds the last good checkpoint of a log: the WARC up to end and
// the log up to at can be believed.
func checkpoint(r io.Reader) (end, at int64, err error) {
	err = readLog(r, func(e event) error {
		if e.checkpoint {
			end, at = e.end, e.at
		}
		return nil
	})
	return end, at, err
}

// addLog adds the index lines of a log to s and returns the end of the last
// exchange that ends at or before limit; later ones are left out.
func addLog(s *sorter, r io.Reader, limit int64) (end int64, err error) {
	err = readLog(r, func(e event) error {
		if e.end > limit || e.checkpoint {
			return nil
		}
		end = max(end, e.end)
		if s == nil || len(e.line) == 0 {
			return nil
		}
		return s.add(e.line)
	})
	return end, err
}
