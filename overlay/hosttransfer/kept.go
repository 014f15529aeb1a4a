package hosttransfer

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/wire"
	"peerd/store"
)

// A host that comes may be in a copy that this peer keeps of the sender's subnet. If the sender
// is lost on the way, that copy is what remains of the host. So what comes is kept beside it,
// chunk by chunk. When all of it is on disk, the copy of the host is deleted and the chunks are
// stored in its place; that is repeated if it is interrupted.

// keptSpace is where chunks are kept, by host and number. Behind the last one is the offer.
const keptSpace = "hosttransfer/"

func (in *intake) space() string         { return keptSpace + in.o.Host + "/" }
func (in *intake) chunkKey(n int) string { return fmt.Sprintf("%s%08x", in.space(), n) }
func (in *intake) offerKey() string      { return in.space() + offerName }

const offerName = "offer"

// keptOffer is the offer of a host of which all chunks are kept.
type keptOffer struct {
	From  string `cbor:"1,keyasint"`
	Offer Offer  `cbor:"2,keyasint"`
}

// keep keeps a chunk.
func (in *intake) keep(c chunk) error {
	raw, err := wire.Marshal(c)
	if err != nil {
		return err
	}
	in.chunks++
	return in.s.DB.Update(func(tx *store.Tx) error {
		return tx.PutData(in.chunkKey(in.chunks), raw)
	})
}

// keepOffer notes that all chunks are kept.
func (in *intake) keepOffer() error {
	raw, err := wire.Marshal(keptOffer{From: in.from.String(), Offer: in.o})
	if err != nil {
		return err
	}
	err = in.s.DB.Update(func(tx *store.Tx) error { return tx.PutData(in.offerKey(), raw) })
	if err == nil {
		err = in.s.DB.Sync()
	}
	in.complete = err == nil
	return err
}

// keptAll reports whether an earlier conversation has left all chunks. If it was with another
// peer the error is errElsewhere.
func (in *intake) keptAll(tx *store.Tx) (bool, error) {
	raw, err := tx.Data(in.offerKey())
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	var k keptOffer
	if err == nil {
		err = wire.Unmarshal(raw, &k)
	}
	if err == nil && k.From != in.from.String() {
		err = fmt.Errorf("%w: it comes from %s", errElsewhere, k.From)
	}
	return err == nil, err
}

// replay stores the chunks that were kept in the place of what is here of the host.
func (in *intake) replay() error {
	if err := in.begin(); err != nil {
		return err
	}
	for n := 1; ; n++ {
		var raw []byte
		err := in.s.DB.View(func(tx *store.Tx) (err error) {
			raw, err = tx.Data(in.chunkKey(n))
			return err
		})
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		var c chunk
		if err == nil {
			err = wire.Unmarshal(raw, &c)
		}
		if err == nil {
			err = in.store(c)
		}
		if err != nil {
			return err
		}
	}
}

// sweepKept ends the conversations of which chunks are kept.
func (s *Service) sweepKept() error {
	hosts, complete := map[string]bool{}, []*intake{}
	err := s.DB.EachData(keptSpace, func(key string, raw []byte) error {
		host, name, _ := strings.Cut(key, "/")
		hosts[host] = true
		if name != offerName {
			return nil
		}
		var k keptOffer
		if err := wire.Unmarshal(raw, &k); err != nil {
			return err
		}
		from, err := peer.Decode(k.From)
		complete = append(complete, &intake{s: s, o: k.Offer, from: from,
			subnet: store.SubnetOf(k.Offer.Addr), copied: true, complete: true})
		return err
	})
	for _, in := range complete {
		if err == nil {
			err = in.resume()
		}
	}
	for host := range hosts {
		if err == nil {
			err = s.DB.DropData(keptSpace + host + "/")
		}
	}
	return err
}

// resume goes on with a host of which all chunks are kept, unless its new home has left this peer
// or the host has come to be elsewhere. It comes into the frontier with its subnet.
func (in *intake) resume() error {
	ours := false
	err := in.s.DB.View(func(tx *store.Tx) (err error) {
		ours, err = isOurs(tx, in.subnet)
		return err
	})
	if err != nil || !ours {
		return err
	}
	if err = in.replay(); err == nil {
		_, err = in.move(in.nextAt())
	}
	if errors.Is(err, errElsewhere) {
		return nil
	}
	return err
}

func isOurs(tx *store.Tx, p netip.Prefix) (bool, error) {
	rec, err := tx.Subnet(p)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil && rec.Phase != store.PhaseReplica && rec.Phase != store.PhaseStaged, err
}
