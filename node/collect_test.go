package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/overlaytest"
	"peerd/store/warc"
)

// Positions in the archives of peers that have been gone for long are removed, those of others not.
func TestForgetPositions(t *testing.T) {
	o := options(t)
	o.Config.Archive.Enabled, o.Config.Collect.Enabled = true, true
	n, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	c := newCollected(n)
	var all [3]peer.AddrInfo // one that stays, one that returns in time, and one that does not
	for i := range all {
		_, all[i].ID = overlaytest.Identity(int64(i + 1))
		if err := c.Save(all[i].ID, map[string]int64{"f": 5, "g": 1 << 40}, nil); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	for _, s := range []struct {
		after time.Duration
		known []peer.AddrInfo
		want  [3]int // files
	}{
		{0, nil, [3]int{2, 2, 2}},
		{keepPosition / 2, all[:2], [3]int{2, 2, 2}},
		{keepPosition - time.Hour, all[:1], [3]int{2, 2, 2}},
		{keepPosition + time.Hour, all[:1], [3]int{2, 2, 0}},
		{2 * keepPosition, all[:1], [3]int{2, 0, 0}},
	} {
		if err := c.sweep(s.known, now.Add(s.after)); err != nil {
			t.Fatal(err)
		}
		var got [3]int
		for i, p := range all {
			at, err := c.Position(p.ID)
			if err != nil {
				t.Fatal(err)
			}
			got[i] = len(at)
		}
		if got != s.want {
			t.Errorf("after %v: positions in %v files, want %v", s.after, got, s.want)
		}
	}
}

// What was archived before a crash and is sent again is not archived again; what comes later is.
func TestCollectAgain(t *testing.T) {
	o := options(t)
	o.Config.Archive.Enabled, o.Config.Collect.Enabled = true, true
	n, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	_, from := overlaytest.Identity(1)
	packet := func(first, last int) (all []warc.Exchange) {
		for i := first; i <= last; i++ {
			all = append(all, warc.Exchange{URL: fmt.Sprintf("http://a.example/%d", i),
				Time: time.Unix(1e9, int64(i)*1000), From: from.String(),
				Response: []byte("HTTP/1.1 200 OK\r\n\r\n"), Body: []byte("x")})
		}
		return all
	}
	restart := func() *collected {
		c := newCollected(n)
		if err := c.load(t.Context()); err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := restart()
	if err := c.Save(from, map[string]int64{"f": 5}, packet(1, 3)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.archive(from, packet(4, 6)); err != nil { // a crash before Save has ended
		t.Fatal(err)
	}
	c = restart()
	if at, err := c.Position(from); err != nil || len(at) != 1 || at["f"] != 5 {
		t.Fatalf("Position() = %v, %v, want 5", at, err)
	}
	if err := c.Save(from, map[string]int64{"f": 9}, packet(4, 8)); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[int64]bool{7000: true, 8000: false} {
		body, ok := c.Version(from, "http://a.example/7", time.Unix(1e9, at))
		if ok != want || want && string(body) != "x" {
			t.Errorf("version of 7 at %d ns: %q, %v, want %v", at, body, ok, want)
		}
	}
	if _, ok := c.Version(from, "http://a.example/1", time.Unix(1e9, 1000)); ok {
		t.Error("a version from before the start is known")
	}
	bad := packet(9, 9)
	bad[0].URL = "http://a.example/../x"
	if err := c.Save(from, map[string]int64{"f": 10, "g": 1}, bad); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	err = n.archive.FollowExchanges(t.Context(), map[string]int64{}, warc.Selection{Copied: true},
		func(x warc.Exchange) error {
			got[x.URL]++
			return nil
		})
	for i := 1; i <= 8; i++ {
		if k := got[fmt.Sprintf("http://a.example/%d", i)]; k != 1 {
			t.Errorf("page %d is archived %d times", i, k)
		}
	}
	if err != nil || len(got) != 8 {
		t.Errorf("%d pages, %v, want 8", len(got), err)
	}
	if at, err := c.Position(from); err != nil || at["f"] != 10 || at["g"] != 1 {
		t.Errorf("Position() = %v, %v, want f at 10 and g at 1", at, err)
	}
}
