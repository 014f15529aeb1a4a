package store

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// GivenUp is the record of a URL that this peer no longer tries to fetch. A URL that was
// fetched before has none: its visits are planned (Visit).
type GivenUp struct {
	URL     URL       `cbor:"1,keyasint"`
	Outcome Outcome   `cbor:"2,keyasint"`           // of the last try
	Status  int       `cbor:"3,keyasint,omitempty"` // HTTP status of the last try, if any
	Error   string    `cbor:"4,keyasint,omitempty"` // of the last try in words; see ErrorText
	At      time.Time `cbor:"5,keyasint"`           // when the URL was given up
	First   time.Time `cbor:"6,keyasint"`           // first failure; At if there was one only
	Tries   int       `cbor:"7,keyasint,omitempty"` // failed tries of the URL itself
	Depth   int       `cbor:"8,keyasint,omitempty"`
	Kind    Kind      `cbor:"9,keyasint,omitempty"`
	Hops    int       `cbor:"10,keyasint,omitempty"`
	Key     []byte    `cbor:"-"` // database key, set when read
}

// MaxErrorText is the maximum length of the text of an error in a record, in bytes.
const MaxErrorText = 200

// ErrorText returns the text of err as records contain it: valid UTF-8 in one line, cut to
// MaxErrorText bytes. The text of nil is "".
func ErrorText(err error) string {
	if err == nil {
		return ""
	}
	return CutErrorText(err.Error())
}

// CutErrorText is ErrorText for a text, which may come from another peer.
func CutErrorText(s string) string {
	s = s[:min(len(s), 2*MaxErrorText)]
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "")), " ")
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, s)
	for len(s) > MaxErrorText {
		_, n := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-n]
	}
	return s
}

// GiveUp records that a URL is no longer tried, and replaces its earlier record. The caller
// removes the URL from its queue.
func (tx *Tx) GiveUp(g GivenUp) error {
	g.Error = CutErrorText(g.Error)
	return tx.put(digestKey(spaceGivenUp, g.URL.Host(), g.URL.Digest()), g)
}

// GiveUpPending removes a pending URL and records that it is no longer tried. The URL, depth,
// kind and hops of g are set from p.
func (tx *Tx) GiveUpPending(p Pending, g GivenUp) error {
	if err := tx.RemovePending(p.URL); err != nil {
		return err
	}
	g.URL, g.Depth, g.Kind, g.Hops = p.URL, p.Depth, p.Kind, p.Hops
	return tx.GiveUp(g)
}

// GivenUp returns the record of a URL that was given up, or ErrNotFound.
func (tx *Tx) GivenUp(u URL) (GivenUp, error) {
	var g GivenUp
	err := tx.get(digestKey(spaceGivenUp, u.Host(), u.Digest()), &g)
	return g, err
}

// DeleteGivenUp deletes the record of a URL that was given up, if there is one. It reports
// whether there was.
func (tx *Tx) DeleteGivenUp(u URL) (bool, error) {
	key := digestKey(spaceGivenUp, u.Host(), u.Digest())
	if ok, err := tx.has(key); err != nil || !ok {
		return false, err
	}
	return true, tx.del(key)
}

// EachGivenUp calls fn for the URLs of a host that were given up, or for those of all hosts
// if host is "", in order, starting behind the key after if it is not nil. Copies of other
// peers' subnets are left out if host is "". fn returns false to stop.
func (tx *Tx) EachGivenUp(host string, after []byte, fn func(GivenUp) (bool, error)) error {
	prefix := []byte{spaceGivenUp}
	if host != "" {
		prefix = hostPrefix(spaceGivenUp, host)
	}
	of := ownHosts{tx: tx, all: host != ""}
	return eachValue(tx, prefix, after, func(key []byte, g GivenUp) (bool, error) {
		if ok, err := of.has(g.URL.Host()); err != nil || !ok {
			return err == nil, err
		}
		g.Key = key
		return fn(g)
	})
}

// PushAgain queues e at its host, behind all entries of the same depth, although its URL may
// have been seen before, and deletes its record if it was given up. The URL must not be
// queued. The host must have a record, else the error is ErrNotFound.
func (tx *Tx) PushAgain(host string, e Entry) error {
	h, err := tx.Host(host)
	if err != nil {
		return fmt.Errorf("push to %s: %w", host, err)
	}
	if _, err := tx.DeleteGivenUp(e.URL); err != nil {
		return err
	}
	seen, err := tx.Seen(e.URL)
	if err != nil {
		return err
	}
	if !seen {
		if err := tx.MarkSeen(e.URL); err != nil {
			return err
		}
		h.Known++
		tx.Count(Counters{Seen: 1})
	}
	h.Queued++
	return tx.putEntry(host, tx.nextQueueKey(host, e.Place()), e, 0)
}

// forgetGivenUp deletes the record of a URL that was given up while it was pending.
func (tx *Tx) forgetGivenUp(u URL) error {
	ok, err := tx.has(digestKey(spaceGivenUp, u.Host(), u.Digest()))
	if err != nil || !ok {
		return err
	}
	if seen, err := tx.Seen(u); err != nil || seen { // its host is ours and about to leave
		return err
	}
	return tx.retryGivenUp(u)
}

// retryGivenUp deletes the record of a URL that was given up, if there is one, and counts the URL
// as given up no more.
func (tx *Tx) retryGivenUp(u URL) error {
	g, err := tx.GivenUp(u)
	if err != nil {
		return IgnoreNotFound(err)
	}
	tx.CountGivenUp(g.Outcome, -1)
	_, err = tx.DeleteGivenUp(u)
	return err
}

// CountGivenUp adds n to the number of URLs that were given up with an outcome.
func (tx *Tx) CountGivenUp(o Outcome, n int64) {
	if o == OutcomeRobotsDenied {
		tx.Count(Counters{RobotsDenied: n})
	} else {
		tx.Count(Counters{Failed: n})
	}
}

// ownHosts says which hosts are not copies of other peers' hosts. It remembers the last one.
type ownHosts struct {
	tx   *Tx
	all  bool
	name string
	own  bool
}

func (o *ownHosts) has(name string) (bool, error) {
	if o.all || name == o.name {
		return o.all || o.own, nil
	}
	o.name, o.own = name, true
	h, err := o.tx.Host(name)
	if err != nil {
		return true, IgnoreNotFound(err)
	}
	s, err := o.tx.Subnet(h.Subnet)
	if errors.Is(err, ErrNotFound) {
		return true, nil
	}
	o.own = s.Phase != PhaseReplica && s.Phase != PhaseStaged
	return o.own, err
}
