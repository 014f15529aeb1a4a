package hosttransfer

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"peerd/overlay/home"
	"peerd/overlay/wire"
	"peerd/store"
)

var (
	// ErrRefused is returned when the other peer does not take the host.
	ErrRefused = errors.New("hosttransfer: refused")
	// ErrBusy is an ErrRefused of a peer that takes other hosts now.
	ErrBusy = fmt.Errorf("%w: %s", ErrRefused, whyBusy)
	// errMessage is wrapped by what is said of a frame that no honest peer sends.
	errMessage = errors.New("hosttransfer: bad message")
)

// Offer opens a conversation: a host with the record that names its new home. The
// record need not be published yet.
type Offer struct {
	Host   string     `cbor:"1,keyasint"`
	Addr   netip.Addr `cbor:"2,keyasint"` // an address in the new home
	Record []byte     `cbor:"3,keyasint"` // sealed; see package home
	// Wait is the rest of the politeness gap. A duration, because clocks differ.
	Wait     time.Duration `cbor:"4,keyasint,omitempty"`
	Day      int64         `cbor:"5,keyasint,omitempty"` // as in store.Host
	DayCount int64         `cbor:"6,keyasint,omitempty"`
	// Lost is a lease that the sender has lost to the receiver: only Host and what the sender has
	// fetched of it under the lease follow. See TellFetched.
	Lost []byte `cbor:"7,keyasint,omitempty"`
}

// whyBusy is the reason for which a peer refuses a host that it may take another time.
const whyBusy = "busy"

type outcome uint8

const (
	outcomeOK outcome = iota + 1
	outcomeRefused
	outcomeDone
)

type reply struct {
	Outcome outcome `cbor:"1,keyasint"`
	Why     string  `cbor:"2,keyasint,omitempty"`
}

// chunk is a part of the host's state; entries come before what is seen.
type chunk struct {
	Robots  map[string][]byte `cbor:"1,keyasint,omitempty"` // by origin
	State   []byte            `cbor:"2,keyasint,omitempty"`
	Entries []store.Entry     `cbor:"3,keyasint,omitempty"`
	Seen    []store.Digest    `cbor:"4,keyasint,omitempty"`
	Visits  []store.Visit     `cbor:"5,keyasint,omitempty"`
	Last    bool              `cbor:"6,keyasint,omitempty"`
	GivenUp []store.GivenUp   `cbor:"7,keyasint,omitempty"`
}

// Limits of a chunk, and of what a store takes in one transaction.
const (
	maxItems  = 500
	maxSeen   = 1000
	maxRobots = 16
	maxBytes  = 1 << 20 // robots.txt files of one host, and its state
	// maxHistory bounds the history of a visit, as package replica does: with a longer one the new
	// owner would find no replica for its subnet, and no successor. Bytes.
	maxHistory = 4 << 10
	maxURL     = 2048
	maxHost    = 255 // bytes of a host name
	maxWait    = time.Hour
	maxReason  = 200
	// maxChunks bounds a conversation: some hundred million URLs.
	maxChunks = 1 << 20
)

// MaxTime bounds the transfer of one host. A peer that is silent ends it earlier.
const MaxTime = 30 * time.Minute

var limits = wire.Limits{MaxMsg: 4 << 20, Timeout: time.Minute}

// check looks at an offer and returns the record in it, unless it is of fetched pages.
func (o Offer) check() (home.Record, error) {
	if o.Lost != nil && len(o.Host) <= maxHost {
		return home.Record{}, nil
	}
	r, err := home.Open(o.Record)
	if err != nil {
		return r, fmt.Errorf("%w: %w", errMessage, err)
	}
	if r.Host != o.Host || store.SubnetOf(o.Addr) != r.Subnet {
		return r, fmt.Errorf("%w: %s at %s is not in %v", errMessage, o.Host, o.Addr, r.Subnet)
	}
	return r, nil
}

// check looks at a chunk before anything of it is used, and puts its numbers into
// bounds.
func (c *chunk) check(host string, allowed func(store.URL) error) error {
	if len(c.Entries) > maxItems || len(c.Visits) > maxItems || len(c.Seen) > maxSeen ||
		len(c.GivenUp) > maxItems || len(c.Robots) > maxRobots || len(c.State) > maxBytes {
		return fmt.Errorf("%w: too large", errMessage)
	}
	now := time.Now()
	for origin := range c.Robots {
		if !store.URL(origin).IsOriginOf(host) {
			return fmt.Errorf("%w: origin %.100q is not of host %.100q", errMessage, origin, host)
		}
	}
	url := func(u store.URL) error {
		if len(u) > maxURL || u.Host() != host {
			return fmt.Errorf("%w: url %.100q is not of host %.100q", errMessage, u, host)
		}
		return allowed(u)
	}
	for i := range c.Entries {
		e := &c.Entries[i]
		if err := url(e.URL); err != nil {
			return err
		}
		e.Limit(now)
	}
	for i := range c.Visits {
		v := &c.Visits[i]
		if err := url(v.URL); err != nil {
			return err
		}
		if len(v.History) > maxHistory {
			v.History = nil // it is learned again
		}
		v.Limit(now)
	}
	for i := range c.GivenUp {
		g := &c.GivenUp[i]
		if err := url(g.URL); err != nil {
			return err
		}
		g.Limit(now)
	}
	return nil
}
