package overlay

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	record "github.com/libp2p/go-libp2p-record"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"

	"peerd/overlay/wire"
)

// Limits on the DHT records that this peer stores for others, by signer. A record has about half
// a kilobyte. An honest peer signs one for each host that it is the first to take up.
const (
	// maxOfSigner is for all records of one signer.
	maxOfSigner = 2_000_000
	// maxOfNewcomer and maxOfNewcomers are for the records that came since the start and are
	// still held, of one signer and of all together that were met less than ten minutes ago or
	// not at all.
	maxOfNewcomer, maxOfNewcomers = 50_000, 400_000
)

// errQuota is returned for a record of a signer that has too many.
var errQuota = errors.New("overlay: too many records of this signer")

// A signed validator also knows who has signed a value, without checking that again.
type signed interface {
	Signer(value []byte) (peer.ID, error)
}

// signers counts the records held for others by signer. It is safe for concurrent use.
type signers struct {
	validators map[string]record.Validator
	met        peerstore.Peerstore

	mu     sync.Mutex
	total  map[peer.ID]int // at the last sweep, and what came since then
	recent map[peer.ID]int // of total, since the start, of those who were not known for long
	all    int             // of recent
}

func newSigners(validators map[string]record.Validator, met peerstore.Peerstore) *signers {
	return &signers{validators: validators, met: met, total: map[peer.ID]int{},
		recent: map[peer.ID]int{}}
}

// validator returns the validator of a key, or nil.
func (s *signers) validator(key string) record.Validator {
	ns, _, _ := strings.Cut(strings.TrimPrefix(key, "/"), "/")
	return s.validators[ns]
}

// of returns who has signed the value under a key; "" if the namespace does not say.
func (s *signers) of(key string, value []byte) peer.ID {
	v, ok := s.validator(key).(signed)
	if !ok {
		return ""
	}
	id, err := v.Signer(value)
	if err != nil {
		return ""
	}
	return id
}

// A judging validator knows better than Select whether a value takes the place of the one held.
type judging interface {
	Replaces(held, value []byte) bool
}

// replaces reports whether a valid value under a key takes the place of the one held, which gives
// way if it is not valid any more.
func (s *signers) replaces(key string, held, value []byte) (bool, error) {
	v := s.validator(key)
	if v == nil {
		return true, nil
	}
	if err := v.Validate(key, held); err != nil {
		return true, nil //nolint:nilerr // what is held is void
	}
	if v, ok := v.(judging); ok {
		return v.Replaces(held, value), nil
	}
	i, err := v.Select(key, [][]byte{value, held})
	if err != nil {
		return false, fmt.Errorf("overlay: compare records: %w", err)
	}
	return i == 0, nil
}

// take counts a new record, or returns errQuota.
func (s *signers) take(key string, value []byte) error {
	id := s.of(key, value)
	if id == "" {
		return nil
	}
	since, met := wire.Met(s.met, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total[id] >= maxOfSigner {
		return errQuota
	}
	if !met || time.Since(since) < wire.OldAfter {
		if s.recent[id] >= maxOfNewcomer || s.all >= maxOfNewcomers {
			return errQuota
		}
		s.recent[id]++
		s.all++
	}
	s.total[id]++
	return nil
}

// recount replaces what was counted before the last sweep, after which so many records are held.
func (s *signers) recount(total map[peer.ID]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total, s.all = total, 0
	for id, n := range s.recent {
		since, met := wire.Met(s.met, id)
		n = min(n, total[id])
		if n == 0 || met && time.Since(since) >= wire.OldAfter {
			delete(s.recent, id)
			continue
		}
		s.recent[id] = n
		s.all += n
	}
}
