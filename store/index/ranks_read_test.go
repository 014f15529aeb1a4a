package index

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"
)

// The ranks of several indexes do not depend on the order in which they are read, also if each
// has some of the hosts of a source, or has seen a host at another address.
func TestRanksOfSeveralIndexes(t *testing.T) {
	t.Parallel()
	addrs := []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.1")}
	at := func(url string, addr int, links ...Link) Document {
		d := page(url, "Title", "text")
		d.Addr, d.Links = addrs[addr], links
		return d
	}
	views := make([]*Reader, 2)
	for i, docs := range [][]Document{
		{at("http://a.example/", 0, Link{URL: "http://b.a.example/", Text: "own"}),
			at("http://moved.example/", 0)},
		{at("http://b.a.example/", 0, Link{URL: "http://moved.example/", Text: "other"}),
			at("http://moved.example/", 1)},
	} {
		x := open(t)
		apply(t, x, docs...)
		r, err := x.Reader()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		views[i] = r
	}
	var forth, back Ranks
	if err := forth.Read(views...); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(views)
	if err := back.Read(views...); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(forth.ranks, back.ranks) || !reflect.DeepEqual(forth.hosts, back.hosts) {
		t.Errorf("the order of indexes matters: %v, %v and %v, %v", forth.hosts, forth.ranks,
			back.hosts, back.ranks)
	}
	own := sourceOf("a.example", addrs[0])
	if l := forth.ranks[own]; l == nil || l.Out != 1 {
		t.Errorf("the source of a.example is %+v, want one with one link to another", l)
	}
}
