package outbox

import (
	"fmt"
	"testing"

	"peerd/store"
)

// A peer may call pages changed only for sites that name it, and for few at once.
func TestCheckChanged(t *testing.T) {
	t.Parallel()
	p := newPeer(t, listen(t), open(t, ""))
	p.speaks = map[string]bool{"http://named.test": true, "http://late.test": true}
	changed := func(u string) item {
		return item{URL: store.URL(u), Kind: store.KindChanged}
	}
	b := batch{Groups: []group{
		{Host: "named.test", URLs: []item{changed("http://named.test/a"), changed("https://named.test/a")}},
		{Host: "other.test", URLs: []item{changed("http://other.test/a")}},
	}}
	for i := range maxChangedOrigins {
		h := fmt.Sprintf("host%d.test", i)
		b.Groups = append(b.Groups, group{Host: h, URLs: []item{changed("http://" + h + "/")}})
	}
	b.Groups = append(b.Groups,
		group{Host: "late.test", URLs: []item{changed("http://late.test/")}},
		group{Host: "named.test", URLs: []item{changed("http://named.test/b")}})
	p.f.checkChanged(b, p.host.ID())
	want := map[store.URL]bool{"http://named.test/a": true, "http://named.test/b": true}
	for _, g := range b.Groups {
		for _, it := range g.URLs {
			if it.Kind.Changed() != want[it.URL] {
				t.Errorf("%s is marked as changed: %v, want %v", it.URL, it.Kind.Changed(),
					want[it.URL])
			}
		}
	}
}

// A mark arrives with the URL. One that is set while the URL is on its way is sent afterwards.
func TestChangedURLIsDelivered(t *testing.T) {
	t.Parallel()
	a, b := newPeer(t, listen(t), open(t, "")), newPeer(t, listen(t), open(t, ""))
	introduce(a.host, b.host)
	srv := b.f.Serve()
	t.Cleanup(srv.Close)
	b.own["x.test"] = true
	b.speaks = map[string]bool{"http://x.test": true}
	a.resolve = ownedBy(b.host.ID(), 1)

	plain, changed := pending("x.test", 1), pending("x.test", 1)
	changed[0].Kind = store.KindChanged
	if err := a.Route(plain); err != nil {
		t.Fatal(err)
	}
	sent := item{URL: plain[0].URL} // packed, and on its way
	if err := a.Route(changed); err != nil {
		t.Fatal(err)
	}
	if err := a.f.deleteSent([]item{sent}); err != nil {
		t.Fatal(err)
	}
	if n := a.pendingURLs(); n != 1 {
		t.Fatalf("%d URLs are pending after a delivery without the mark, want 1", n)
	}
	a.run()
	eventually(t, "the URL is delivered", func() bool { return a.pendingURLs() == 0 })
	b.set(func() {
		if len(b.routed) != 1 || !b.routed[0].Kind.Changed() {
			t.Errorf("delivered %+v, want one URL marked as changed", b.routed)
		}
	})
}
