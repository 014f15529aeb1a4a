package estimate

import (
	"errors"
	"time"

	"peerd/overlay/wire"
	"peerd/store"
)

type request struct {
	Lease   []byte             `cbor:"1,keyasint"`
	Request store.FetchRequest `cbor:"2,keyasint"`
	// Connect asks for a connection to the URL's server only.
	Connect bool `cbor:"3,keyasint,omitempty"`
}

// response is compressed on the wire: it consists mostly of links, which are similar.
type response struct {
	Refused string            `cbor:"1,keyasint,omitempty"` // why nothing was fetched
	Report  store.FetchReport `cbor:"2,keyasint"`
	// Turn says that the turn of a request has come, and asks whether its owner still waits. The
	// owner answers with a stillWaiting, and another response follows.
	Turn bool `cbor:"3,keyasint,omitempty"`
}

// stillWaiting is the answer to a Turn.
type stillWaiting struct{}

// turnTime bounds the time for it.
const turnTime = 2 * time.Second

// lookupRate limits the leases that are checked: of which nothing is known yet, the DHT is asked.
// The peers met less than ten minutes ago count as one.
var lookupRate = wire.Rate{PerSecond: 50, Burst: 500, TotalFactor: 4}

// lookupTime bounds the time for that.
const lookupTime = 5 * time.Second

// connectRate limits the bare connections requested by other peers: they cost the requester
// nothing and go to servers of its choice.
var connectRate = wire.Rate{PerSecond: 50, Burst: 200, TotalFactor: 4}

// fileRate limits the pages that are reported from files. Only owners of the sites' subnets ask
// for them, and no request is sent, but each is archived.
var fileRate = wire.Rate{PerSecond: 50, Burst: 500, TotalFactor: 2}

const (
	maxRequest  = 32 << 10
	maxResponse = 16 << 20
	maxDepth    = 1<<16 - 1
	maxURL      = 2048 // bytes; canonical URLs are not longer
	// maxLinks is the maximum number of links in a report. The most that package crawl extracts
	// from one page, 100,000 links of 12 MiB in total, fits into a response.
	maxLinks  = 100_000
	maxReason = 300 // bytes
	// maxRetryAfter is the longest wait that a report may impose on the owner.
	maxRetryAfter = 24 * time.Hour
	// slack is how much longer than the fetch the response may take.
	slack = 5 * time.Second
)

// limits returns the stream limits of the side that reads frames of at most size bytes.
func (s *Service) limits(size int) wire.Limits {
	return wire.Limits{MaxMsg: size, Timeout: s.Timeout + slack}
}

// plausible returns an error if the report cannot be of a fetch that took at most timeout.
func plausible(r store.FetchReport, timeout time.Duration) error {
	if r.Outcome == store.OutcomeNone || r.Outcome.String() == "unknown" {
		return errors.New("unknown outcome")
	}
	if len(r.Links) > maxLinks {
		return errors.New("too many links")
	}
	if r.Status != 0 && (r.Status < 100 || r.Status > 999) || r.Bytes < 0 || r.RetryAfter < 0 {
		return errors.New("number out of range")
	}
	t := r.Timing
	for _, d := range []time.Duration{t.DNS, t.Connect, t.TLS, t.FirstByte, t.Body} {
		if d < 0 || d > timeout+2*slack {
			return errors.New("time out of range")
		}
	}
	return nil
}
