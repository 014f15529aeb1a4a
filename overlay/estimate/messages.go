package estimate

import (
	"errors"
	"time"

	"peerd/overlay/wire"
	"peerd/store"
)

type ask struct {
	Lease   []byte             `cbor:"1,keyasint"`
	Request store.FetchRequest `cbor:"2,keyasint"`
	// Connect asks for a connection to the URL's server only.
	Connect bool `cbor:"3,keyasint,omitempty"`
}

// answer is compressed on the wire: links are most of it, and alike.
type answer struct {
	Refused string            `cbor:"1,keyasint,omitempty"` // why nothing was fetched
	Report  store.FetchReport `cbor:"2,keyasint"`
}

// connectRate bounds the bare connections that are made at others' request: they
// cost the asker nothing, and go to servers that it names.
var connectRate = wire.Rate{PerSecond: 50, AtOnce: 200, Together: 4}

const (
	maxAsk    = 32 << 10
	maxAnswer = 16 << 20
	maxDepth  = 1<<16 - 1
	maxURL    = 2048 // bytes; canonical URLs are no longer
	// maxLinks bounds the links of one report. What room crawl takes of one page,
	// 100,000 links and 12 MiB of them, fits into an answer.
	maxLinks  = 100_000
	maxReason = 300 // bytes
	// maxRetryAfter is the longest wait that a server can have the owner make
	// by way of an estimator.
	maxRetryAfter = 24 * time.Hour
	// slack is what an answer may take on top of the fetch.
	slack = 5 * time.Second
)

// limits are those of one exchange, for the side that reads frames of at most
// size bytes.
func (s *Service) limits(size int) wire.Limits {
	return wire.Limits{MaxMsg: size, Timeout: s.Timeout + slack}
}

// plausible says why a report can be none of a fetch that took at most
// timeout.
func plausible(r store.FetchReport, timeout time.Duration) error {
	if r.Outcome == store.OutcomeNone || r.Outcome.String() == "unknown" {
		return errors.New("unknown outcome")
	}
	if len(r.Links) > maxLinks {
		return errors.New("too many links")
	}
	if r.Status != 0 && (r.Status < 100 || r.Status > 999) || r.Bytes < 0 || r.RetryAfter < 0 {
		return errors.New("a number out of range")
	}
	t := r.Timing
	for _, d := range []time.Duration{t.DNS, t.Connect, t.TLS, t.FirstByte, t.Body} {
		if d < 0 || d > timeout+2*slack {
			return errors.New("a time out of range")
		}
	}
	return nil
}
