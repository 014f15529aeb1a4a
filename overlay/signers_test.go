package overlay

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	record "github.com/libp2p/go-libp2p-record"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/host/peerstore/pstoremem"

	"peerd/overlay/overlaytest"
	"peerd/overlay/wire"
)

// bySigner takes a value for the name of its signer.
type bySigner struct{ record.Validator }

func (bySigner) Signer(value []byte) (peer.ID, error) { return peer.ID(value), nil }

// A key that was just made gets so many records and no more, many such keys together, too, and a
// peer that was met long ago is not held up by them. When their records are gone, there is room
// for others.
func TestRecordsOfSigner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		met, err := pstoremem.NewPeerstore()
		if err != nil {
			t.Fatal(err)
		}
		defer met.Close()
		s := newSigners(map[string]record.Validator{"test": bySigner{}}, met)
		_, known := overlaytest.Identity(1)
		wire.Meet(met, known)
		take := func(id peer.ID, n int) (taken int) {
			for i := range n {
				err := s.take(fmt.Sprint("/test/", i), []byte(id))
				if errors.Is(err, errQuota) {
					return taken
				}
				if err != nil {
					t.Fatal(err)
				}
				taken++
			}
			return taken
		}
		if n := take("new", maxOfNewcomer+10); n != maxOfNewcomer {
			t.Errorf("%d records of a new key, want %d", n, maxOfNewcomer)
		}
		all := maxOfNewcomer
		for i := range 20 {
			all += take(peer.ID(fmt.Sprint("new", i)), maxOfNewcomer)
		}
		if all != maxOfNewcomers {
			t.Errorf("%d records of many new keys, want %d", all, maxOfNewcomers)
		}
		if n := take(known, 1); n != 0 {
			t.Error("a record of a peer that was met just now was stored, want none")
		}
		time.Sleep(wire.OldAfter)
		if n := take(known, 2*maxOfNewcomer); n != 2*maxOfNewcomer {
			t.Errorf("%d records of a peer that was met long ago, want %d", n, 2*maxOfNewcomer)
		}
		s.recount(map[peer.ID]int{known: maxOfSigner})
		if n := take(known, 1); n != 0 {
			t.Error("a record more than a peer may have was stored")
		}
		for range 2 {
			held := map[peer.ID]int{}
			for i := range 8 {
				id := peer.ID(fmt.Sprint("other", i))
				if n := take(id, maxOfNewcomer); n != maxOfNewcomer {
					t.Errorf("%d records of %s when those of others are gone, want %d", n, id,
						maxOfNewcomer)
				}
				held[id] = maxOfNewcomer
			}
			s.recount(held)
			if n := take("late", 1); n != 0 {
				t.Error("a record more than new keys may have was stored after a sweep")
			}
			held["other0"] = 7
			s.recount(held)
			if n := take("late", maxOfNewcomer); n != maxOfNewcomer-7 {
				t.Errorf("%d records in the room of others, want %d", n, maxOfNewcomer-7)
			}
			s.recount(map[peer.ID]int{})
		}
		if s.take("/other/x", []byte("new")) != nil {
			t.Error("a record of a namespace without signers was refused")
		}
	})
}
