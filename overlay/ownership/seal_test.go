package ownership_test

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"testing"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/ownership"
)

type identity struct {
	ownership.Member
	key crypto.PrivKey
}

// identities returns peers with keys, in ascending order.
func identities(t testing.TB, n int) []identity {
	t.Helper()
	var all []identity
	for i := range n {
		seed := bytes.Repeat([]byte{byte(i + 1)}, 64)
		key, _, err := crypto.GenerateEd25519Key(bytes.NewReader(seed))
		if err != nil {
			t.Fatal(err)
		}
		id, err := peer.IDFromPrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, identity{ownership.Member{ID: id, Store: uint64(i)}, key})
	}
	slices.SortFunc(all, func(a, b identity) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// sealed returns a record of that many links, each signed by three of four witnesses.
func sealed(t testing.TB, links int) ownership.Record {
	t.Helper()
	ids := identities(t, 5)
	var r ownership.Record
	for i := range links {
		body := ownership.Lease{Network: "n", Unit: "192.0.2.0/24", Epoch: uint64(i + 1),
			Kind: ownership.Claim, Owner: ids[0].Member, Prev: r.Newest().ID(),
			Replicas: []peer.ID{ids[1].ID, ids[2].ID}}
		if i > 0 {
			body.Kind = ownership.Renewal
		}
		for _, w := range ids[1:] {
			body.Witnesses = append(body.Witnesses, w.Member)
		}
		l, err := ownership.NewLease(body)
		if err != nil {
			t.Fatal(err)
		}
		c := ownership.Certificate{Ballot: ownership.Ballot{N: 1, By: ids[0].ID}, Near: i == 0}
		for _, w := range ids[1:4] {
			s, err := ownership.Seal(l, c.Ballot, w.Member, w.key)
			if err != nil {
				t.Fatal(err)
			}
			c.Signatures = append(c.Signatures, s)
		}
		r = append(r, ownership.Link{Lease: l, Cert: c})
	}
	return r
}

func TestEncode(t *testing.T) {
	for _, links := range []int{1, 2, 8} {
		raw, err := ownership.Encode(sealed(t, links))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d links: %d bytes", links, len(raw))
		r, err := ownership.Decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := r.Newest().ID(), sealed(t, links).Newest().ID(); got != want {
			t.Errorf("%d links: decoded another lease", links)
		}
		var rules ownership.Rules
		if v := rules.Read(r[0].Lease, r, nil); (v == ownership.Newer) != (links > 1) {
			t.Errorf("%d links: verdict %v", links, v)
		}
	}
}

// TestDecodeRefuses changes each byte of a record: none is accepted as another lease.
func TestDecodeRefuses(t *testing.T) {
	raw, err := ownership.Encode(sealed(t, 2))
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		bad := bytes.Clone(raw)
		bad[i] ^= 0x01
		if r, err := ownership.Decode(bad); err == nil {
			t.Errorf("accepted a change of byte %d: %v", i, r.Newest())
		} else if !errors.Is(err, ownership.ErrRecord) {
			t.Errorf("byte %d: error %v does not wrap ErrRecord", i, err)
		}
	}
	if _, err := ownership.Decode(make([]byte, ownership.MaxRecord+1)); err == nil {
		t.Error("accepted a record that is too long")
	}
}

func FuzzDecode(f *testing.F) {
	raw, err := ownership.Encode(sealed(f, 2))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := ownership.Decode(raw)
		if err != nil {
			return
		}
		again, err := ownership.Encode(r)
		if err != nil || !bytes.Equal(again, raw) {
			t.Errorf("encoded %x again as %x, %v", raw, again, err)
		}
		var rules ownership.Rules
		rules.Read(nil, r, func(string) []ownership.Member { return nil })
	})
}
