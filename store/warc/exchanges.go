package warc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"
)

// Selection says which exchanges FollowExchanges reads.
type Selection struct {
	// Want says whether an exchange with this URL is read. If nil, all are.
	Want func(url string) bool
	// Copied includes the exchanges that were copied from another peer.
	Copied bool
	// MaxBytes bounds the size of each record of an exchange; 0: MaxCapture.
	MaxBytes int64
	// Large is called with the URL and the size of a larger one, of which the exchange is left
	// out. Optional.
	Large func(url string, bytes int64)
}

// FollowExchanges is Follow for whole exchanges with a response. When it calls fn, at is the
// position after the exchange, or after others that follow and are not selected. A caller that
// continues with a copy of at, made by fn, or with at itself if fn returned an error, reads every
// later exchange.
func (r *Reader) FollowExchanges(
	ctx context.Context, at map[string]int64, s Selection, fn func(Exchange) error,
) error {
	if s.MaxBytes <= 0 {
		s.MaxBytes = MaxCapture
	}
	var x *Exchange // of which the response was read
	var id string   // of the response
	var from Location
	give := func() error {
		if x == nil {
			return nil
		}
		whole := *x
		x = nil
		return fn(whole)
	}
	err := r.Follow(ctx, at, func(rec Record) error {
		first := rec.Get("WARC-Concurrent-To") == ""
		if first {
			if err := give(); err != nil {
				return err
			}
			id = rec.ID
		}
		if !s.selects(&rec) || !first && (x == nil || rec.Get("WARC-Concurrent-To") != id) {
			return nil
		}
		if rec.Length > s.MaxBytes {
			x = nil
			if s.Large != nil {
				s.Large(rec.URL, rec.Length)
			}
			return nil
		}
		if first && isCapture(&rec) {
			x, from = newExchange(&rec), rec.Location
			x.At = Location{File: from.File, Offset: from.Offset}
		}
		err := x.read(&rec)
		if err != nil {
			x = nil
		}
		return err
	})
	if err != nil && x != nil && !errors.Is(err, ErrCorrupt) { // read it again
		at[from.File] = from.Offset
	}
	if err == nil || errors.Is(err, ErrCorrupt) {
		return errors.Join(give(), err)
	}
	return err
}

// selects reports whether a record is part of an exchange that may be read.
func (s *Selection) selects(rec *Record) bool {
	return rec.URL != "" && (s.Copied || rec.Get(fromField) == "") &&
		(s.Want == nil || s.Want(rec.URL))
}

// newExchange returns the exchange of a response or revisit record, without its contents.
func newExchange(rec *Record) *Exchange {
	x := &Exchange{URL: rec.URL, Time: rec.Time, From: rec.Get(fromField),
		CipherSuite: rec.Get("WARC-Cipher-Suite")}
	x.Addr, _ = netip.ParseAddr(rec.Get("WARC-IP-Address")) // optional
	for _, f := range rec.Fields {
		if strings.EqualFold(f.Name, "WARC-Protocol") {
			x.Protocols = append(x.Protocols, f.Value)
		}
	}
	if rec.Type == "response" {
		x.Truncated = rec.Get("WARC-Truncated")
		return x
	}
	x.Revisit = &Revisit{Profile: rec.Get("WARC-Profile"),
		URL: rec.Get("WARC-Refers-To-Target-URI"), Digest: rec.Get("WARC-Payload-Digest")}
	if at, err := time.Parse(time.RFC3339Nano, rec.Get("WARC-Refers-To-Date")); err == nil {
		x.Revisit.Time = at
	}
	return x
}

// read adds the block of a record to x, which may be nil.
func (x *Exchange) read(rec *Record) error {
	if x == nil {
		return nil
	}
	block, err := io.ReadAll(rec.Block)
	if err == nil && int64(len(block)) != rec.Length {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		at := rec.Location
		return fmt.Errorf("%w: %s at %d: %w", ErrCorrupt, at.File, at.Offset, err)
	}
	if err := rec.Check(); err != nil {
		return err
	}
	switch rec.Type {
	case "request":
		x.Request = block
	case "metadata":
		x.Metadata = parseFields(block)
	case "response", "revisit":
		end := bytes.Index(block, []byte("\r\n\r\n"))
		if end < 0 {
			x.Response = block
			break
		}
		x.Response = block[:end+4]
		if x.Revisit == nil {
			x.Body = block[end+4:]
		}
	}
	return nil
}

// parseFields is the inverse of appendFields.
func parseFields(block []byte) (all []Field) {
	for line := range strings.SplitSeq(string(block), "\r\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			all = append(all, Field{name, strings.TrimPrefix(value, " ")})
		}
	}
	return all
}

// Position returns the end of each file of the archive, as Follow leaves it.
func (r *Reader) Position(ctx context.Context) (map[string]int64, error) {
	at := map[string]int64{}
	err := r.files(ctx, func(name string, x extent) error {
		at[name] = x.end
		return nil
	})
	return at, err
}
