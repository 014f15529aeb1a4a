package overlay

import (
	"bytes"
	"strings"
	"testing"
	"time"

	record "github.com/libp2p/go-libp2p-record"
	"github.com/libp2p/go-libp2p/core/peer"
)

// firsts is a newest of which what begins with 0 can be the first: 0, 00 and so on.
type firsts struct{ newest }

func (firsts) Statement(val []byte) []byte {
	if !bytes.HasPrefix(val, []byte("0")) {
		return nil
	}
	return append([]byte("test receipt "), val...)
}

// What ends in 9 is for other holders.
func (firsts) Signs(val []byte, _ peer.ID) bool { return !bytes.HasSuffix(val, []byte("9")) }

// state lets a Net sign receipts for records of /test.
func state(n *Net) {
	v := n.values
	v.local.signers.validators = map[string]record.Validator{"test": firsts{}}
}

// asked returns whether a peer signs a receipt for a record.
func asked(t *testing.T, from, to *Net, key, val string) bool {
	t.Helper()
	a, err := ask(t, from, to, recordRequest{Key: key, Record: []byte(val), Sign: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Receipt) == 0 {
		return false
	}
	pub, err := to.Self().ExtractPublicKey()
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := pub.Verify(firsts{}.Statement([]byte(val)), a.Receipt); !ok || err != nil {
		t.Fatalf("the receipt for %s does not fit: %v", val, err)
	}
	return true
}

// A record holder signs for the first record only, also after a better one has replaced it, and
// after a restart; what it held before anybody asked counts as first.
func TestReceipts(t *testing.T) {
	nets := mesh(t, 2)
	holder := nets[1].values
	state(nets[1])
	for _, c := range []struct {
		key, val string
		want     bool
	}{
		{"/test/a", "07", true}, {"/test/a", "07", true},
		{"/test/a", "08", false}, {"/test/a", "08", false}, // it is held now
		{"/test/a", "07", true},
		{"/test/b", "9", false}, {"/test/b", "010", false},
		{"/test/d", "09", false}, {"/test/d", "010", false}, // 09 was the first all the same
	} {
		if got := asked(t, nets[0], nets[1], c.key, c.val); got != c.want {
			t.Errorf("%s %s: signed %v, want %v", c.key, c.val, got, c.want)
		}
	}
	// The first record came without a question.
	if _, err := ask(t, nets[0], nets[1],
		recordRequest{Key: "/test/c", Record: []byte("01")}); err != nil {
		t.Fatal(err)
	}
	if asked(t, nets[0], nets[1], "/test/c", "02") {
		t.Error("a second record was signed for, because no peer had asked for the first")
	}
	// What was signed is on the disk, and is forgotten in the end.
	later := time.Now().Add(boundFor + time.Minute)
	for at, want := range map[time.Time]bool{time.Now(): true, later: false} {
		first, err := holder.local.bound(t.Context(), "/test/a", at)
		if err != nil || (first != nil) != want {
			t.Errorf("at %v: %q, %v, bound: want %v", at, first, err, want)
		}
	}
	if _, err := holder.local.sweep(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	if has, err := holder.local.store.Has(t.Context(), boundKey("/test/a")); err != nil || has {
		t.Errorf("what was first is still there: %v, %v", has, err)
	}
}

// Receipts come from those of the peers asked that give them; others do not delay them, and a peer
// of an earlier version takes the record.
func TestCollectReceipts(t *testing.T) {
	nets := mesh(t, 4)
	state(nets[0])
	state(nets[1])
	older(t, nets[2])
	liar(t, nets[3], recordAnswer{Same: true, Receipt: make([]byte, maxReceipt+1)})
	got := nets[0].Values().Receipts(t.Context(), "/test/r", []byte("05"),
		[]peer.ID{nets[1].Self(), nets[2].Self(), nets[3].Self()})
	if len(got) != 1 || len(got[nets[1].Self()]) == 0 {
		t.Errorf("receipts of %v, want that of %v", got, nets[1].Self())
	}
	if asked(t, nets[1], nets[0], "/test/r", "06") {
		t.Error("a claimant signs for a rival")
	}
}

// older makes a Net answer requests for records like one of an earlier version.
func older(t *testing.T, n *Net) {
	t.Helper()
	liar(t, n, recordAnswer{Same: true})
}

// A record without receipts is answered as by earlier versions.
func TestNoReceipt(t *testing.T) {
	nets := mesh(t, 2)
	state(nets[1])
	a, err := ask(t, nets[0], nets[1], recordRequest{Key: "/test/n", Record: []byte("05")})
	if err != nil || len(a.Receipt) > 0 || !a.Same {
		t.Errorf("%+v, %v, want no receipt", a, err)
	}
	if asked(t, nets[0], nets[1], "/test/"+strings.Repeat("n", 9), "5") {
		t.Error("a receipt for what is no first record")
	}
}
