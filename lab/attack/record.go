package attack

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"peerd/node"
	"peerd/overlay/home"
	"peerd/overlay/wire"
	"peerd/store"
)

// Attacks on the DHT's records and on copies.

func recordAttacks() []Attack {
	return []Attack{
		{
			Name: "record-flood", Unit: "records stored", Limit: 50_000, Slow: true,
			Does: "writes home records of made-up hosts to one peer for 50 s",
			By: "50,000 records of a signer that was just met, 400,000 of all such signers; " +
				"256 requests/s for a peer",
			run: floodRecords,
		},
		{
			Name: "copies", Unit: "copies promised, of 1,000", Limit: 0, Slow: true,
			Does: "claims 1,000 subnets and asks a peer to keep copies of them",
			By: "none for a subnet that the DHT does not show as the claimant's; 32 leases are " +
				"read for a claimant at a time; a share of the places and of the URLs for a peer",
			run: fillCopies,
		},
	}
}

func floodRecords(e *arena) (outcome, error) {
	vs, err := e.peers(1)
	if err != nil {
		return outcome{}, err
	}
	s, err := e.stranger()
	if err != nil {
		return outcome{}, err
	}
	stored, sent := 0, 0
	until := time.Now().Add(50 * time.Second)
	for time.Now().Before(until) && e.ctx.Err() == nil {
		n, err := s.flood(vs[0], sent, until)
		stored, sent = stored+n, sent+n+1
		if err != nil && n == 0 {
			if err := e.sleep(20 * time.Millisecond); err != nil {
				return outcome{}, err
			}
		}
	}
	return outcome{float64(stored), fmt.Sprintf("%d sent", sent)}, nil
}

// flood writes records of made-up hosts until one is refused, and returns how many were stored.
func (s *stranger) flood(v *node.Node, from int, until time.Time) (stored int, err error) {
	for ; time.Now().Before(until); stored++ {
		host := fmt.Sprintf("h%d.flood.test", from+stored)
		rec, err := home.Seal(home.Record{Network: s.e.names.Network(), Host: host,
			Subnet: netip.MustParsePrefix("127.35.1.0/24"), By: s.id, Issued: s.e.now(), Epoch: 1},
			s.key)
		if err != nil {
			return stored, err
		}
		// {1: key, 3: record}, and in the answer {2: true} if the record is held
		a, err := s.ask(v, s.e.names.Record(), fields{1: home.Key(host), 3: rec}, false, false)
		if held, _ := a[2].(bool); err == nil && !held {
			err = errors.New("attack: the record is not held")
		}
		if err != nil {
			return stored, err
		}
	}
	return stored, nil
}

func fillCopies(e *arena) (outcome, error) {
	vs, err := e.peers(1)
	if err != nil {
		return outcome{}, err
	}
	m, err := e.member() // a stranger is disconnected
	if err != nil {
		return outcome{}, err
	}
	if err := m.introduce(vs[0], nil); err != nil {
		return outcome{}, err
	}
	const n = 1000
	c, err := m.dial(vs[0], e.names.Replica())
	if err != nil {
		return outcome{}, err
	}
	defer c.Reset()
	e.running.Go(func() { // while the replies are read
		for i := 0; i < n; i++ {
			p := store.SubnetOf(netip.AddrFrom4([4]byte{127, 100 + byte(i>>8), byte(i), 1}))
			_, sealed, err := e.claim(p, m.identity)
			if err == nil {
				err = c.SendZ(fields{2: fields{1: p, 2: 1, 3: sealed, 7: i + 1, 8: uint64(i + 5),
					9: store.LogPos{}}})
			}
			if err != nil {
				return // the replies end, too
			}
		}
	})
	return readReplies(c, n)
}

// readReplies counts the answers to requests to keep copies.
func readReplies(c *wire.Conn, n int) (outcome, error) {
	ok, refused, last := 0, 0, ""
	for ok+refused < n {
		var answer struct {
			Replies []struct {
				Status uint64 `cbor:"3,keyasint"`
				Reason string `cbor:"4,keyasint"`
			} `cbor:"2,keyasint"`
		}
		if err := c.RecvZ(&answer); err != nil {
			if ok+refused == 0 {
				return outcome{}, fmt.Errorf("attack: no reply: %w", err)
			}
			last = err.Error()
			break
		}
		for _, r := range answer.Replies {
			if r.Status == 1 {
				ok++
			} else {
				refused, last = refused+1, r.Reason
			}
		}
	}
	return outcome{float64(ok), fmt.Sprintf("%d refused: %.80s", refused, last)}, nil
}
