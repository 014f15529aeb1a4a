package search

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/mirror"
	"peerd/overlay/overlaytest"
	"peerd/overlay/peers"
	"peerd/overlay/search"
	"peerd/overlay/wire"
)

// life is the state of all peers.
type life struct {
	mu    sync.Mutex
	state peers.State
}

func (l *life) Liveness(peer.ID) peers.Liveness {
	l.mu.Lock()
	defer l.mu.Unlock()
	return peers.Liveness{State: l.state}
}

func (l *life) set(s peers.State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = s
}

// disk has enough space if err is nil.
type disk struct{ err error }

func (d *disk) CheckSpace() error { return d.err }

// noChoice is a mirror.Choice that forgets.
type noChoice struct{}

func (noChoice) Load() ([]peer.ID, error) { return nil, nil }
func (noChoice) Save([]peer.ID) error     { return nil }

// mirrored sends an archive to a keeper until that has all of it.
func mirrored(t *testing.T, s *mirror.Sender, k *mirror.Keeper, l *life) {
	t.Helper()
	end, err := s.Archive.Position(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var want int64
	for _, n := range end {
		want += n
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	copied := func() bool {
		for _, c := range k.All() {
			if c.Bytes() == want && c.Whole() {
				return true
			}
		}
		return false
	}
	overlaytest.Until(t, "the archive is copied", copied)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	l.set(peers.Dead)
	overlaytest.Until(t, "the owner is absent", func() bool { return len(k.Absent()) == 1 })
}

// A copy is indexed when its owner is absent, and searched then. Later only what was added is
// indexed, or everything if the copy was replaced.
func TestCopies(t *testing.T) {
	owner := overlaytest.Peers(1, 1)[0]
	a := archive(t, t.TempDir(), 0)
	defer a.Close()
	l, d := &life{state: peers.Alive}, &disk{}
	s := &mirror.Sender{Host: overlaytest.HostOf(t, owner.Key), Protocol: "/mirror", Network: "n",
		Key: owner.Key, Archive: a, Mirrors: 1, Upload: 1 << 30, Choice: noChoice{},
		Look: time.Millisecond, Retry: time.Millisecond, Patience: time.Hour, Logger: discard}
	k := &mirror.Keeper{Host: overlaytest.Host(t), Protocol: "/mirror", Network: "n",
		Dir: t.TempDir(), Bytes: 1 << 30, Space: &disk{}, Lives: l, Logger: discard}
	s.Peers = overlaytest.PeersFunc(func() []peer.AddrInfo {
		return []peer.AddrInfo{{ID: k.Host.ID(), Addrs: k.Host.Addrs()}}
	})
	wire.Meet(k.Host.Peerstore(), owner.ID)
	if err := k.Open(); err != nil {
		t.Fatal(err)
	}
	defer k.Serve().Close()
	c := &Copies{Keeper: k, Agent: "peerd", Space: d, Logger: discard}
	defer c.Close()
	failed := map[peer.ID]time.Time{}
	// check looks for absent peers and searches the copy.
	check := func(copies, pages int) {
		t.Helper()
		c.look(t.Context(), failed)
		all := c.Use()
		defer c.Done()
		if len(all) != copies {
			t.Fatalf("%d copies, want %d", len(all), copies)
		}
		found := 0
		if copies > 0 && all[0].Index != nil {
			local := &search.Local{Index: all[0].Index.Index, Text: all[0].Index.Text}
			r, err := local.Search(t.Context(), `"apple pie"`, 0, 50)
			if err != nil {
				t.Fatal(err)
			}
			found = len(r.Hits)
			for _, h := range r.Hits {
				if h.Snippet.Text == "" {
					t.Errorf("%s has no snippet", h.URL)
				}
			}
		}
		if copies > 0 && (all[0].Index != nil) != (pages > 0) {
			t.Error("the copy is searched before it is indexed, or not when it is")
		}
		if found != pages {
			t.Errorf("found %d pages, want %d", found, pages)
		}
	}
	pages := func(from, n int) {
		for i := from; i < from+n; i++ {
			add(t, a, fmt.Sprintf("http://a.example/%d", i), html,
				fmt.Sprintf("<title>Page %d</title><p>Apple pie of word%d", i, i))
		}
	}
	pages(0, 5)
	mirrored(t, s, k, l)
	d.err = errors.New("the disk is full")
	check(1, 0)
	d.err = nil
	check(1, 0) // not again at once
	clear(failed)
	check(1, 5)
	l.set(peers.Alive)
	check(1, 0) // until it has not been in a conversation for some time
	if len(c.open) > 0 {
		t.Error("the index is open although the owner is back")
	}
	pages(5, 3)
	mirrored(t, s, k, l)
	check(1, 8)

	files, err := filepath.Glob(filepath.Join(k.Dir, "*", "archive", "*.warc.gz.open"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, %v", files, err)
	}
	if err := os.WriteFile(files[0], make([]byte, 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	l.set(peers.Alive)
	if err := k.Open(); err != nil {
		t.Fatal(err)
	}
	mirrored(t, s, k, l)
	check(1, 8)
	if old, err := filepath.Glob(filepath.Join(k.Dir, "*", "index-0")); err != nil || len(old) > 0 {
		t.Errorf("%v is left, %v", old, err)
	}
}
