package mirror

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/overlaytest"
	"peerd/overlay/peers"
	"peerd/overlay/wire"
	"peerd/store/warc"
)

const (
	protocolID = "/peerd/test/mirror/1.0.0"
	network    = "test"
)

// lives are the states of peers; others are alive.
type lives map[peer.ID]peers.Liveness

func (l lives) Liveness(p peer.ID) peers.Liveness {
	if v, ok := l[p]; ok {
		return v
	}
	return peers.Liveness{State: peers.Alive}
}

// disk has enough space if err is nil.
type disk struct{ err error }

func (d disk) CheckSpace() error { return d.err }

// chosen is a Choice in memory.
type chosen struct {
	mu  sync.Mutex
	all []peer.ID
}

func (c *chosen) Load() ([]peer.ID, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all, nil
}

func (c *chosen) Save(all []peer.ID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = all
	return nil
}

// keeper starts a peer that keeps copies.
func keeper(t testing.TB, bytes int64) *Keeper {
	t.Helper()
	k := &Keeper{Host: overlaytest.Host(t), Protocol: protocolID, Network: network,
		Dir: filepath.Join(t.TempDir(), "mirrors"), Bytes: bytes, Space: disk{}, Lives: lives{},
		Logger: overlaytest.Log(t)}
	if err := k.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Serve().Close)
	return k
}

// sender returns a Sender of an archive of small files, which is empty.
func sender(t testing.TB, to ...*Keeper) *Sender {
	t.Helper()
	return senderOf(t, 300<<10, to...)
}

func senderOf(t testing.TB, maxFile int64, to ...*Keeper) *Sender {
	t.Helper()
	a, err := warc.Open(t.TempDir(), warc.Options{MinFree: -1, MaxFile: maxFile})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	owner := overlaytest.Peers(1, 1)[0]
	s := &Sender{Host: overlaytest.HostOf(t, owner.Key), Protocol: protocolID, Network: network,
		Key: owner.Key, Archive: a, Mirrors: 1, Upload: 1 << 30, Choice: &chosen{},
		Look: time.Millisecond, Retry: time.Millisecond, Patience: time.Hour,
		Logger: overlaytest.Log(t)}
	s.Peers = overlaytest.PeersFunc(func() (all []peer.AddrInfo) {
		for _, k := range to {
			all = append(all, infoOf(k.Host))
		}
		return all
	})
	for _, k := range to {
		wire.Meet(k.Host.Peerstore(), s.Host.ID())
	}
	return s
}

func infoOf(h host.Host) peer.AddrInfo { return peer.AddrInfo{ID: h.ID(), Addrs: h.Addrs()} }

// add archives pages of about 100 KiB, numbered from a number on.
func add(t testing.TB, s *Sender, from, n int) {
	t.Helper()
	for i := from; i < from+n; i++ {
		body := make([]byte, 100<<10)
		_, _ = rand.NewChaCha8([32]byte{byte(i)}).Read(body) // no error
		if _, err := s.Archive.Append(warc.Exchange{URL: fmt.Sprintf("http://a.example/%d", i),
			Time: time.Now(), Response: []byte("HTTP/1.1 200 OK\r\n\r\n"),
			Body: body}); err != nil {
			t.Fatal(err)
		}
	}
}

// running runs a Sender until the returned function is called.
func running(t testing.TB, s *Sender) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// copyOf returns the only copy that a peer has, or nil.
func copyOf(k *Keeper) *Copy {
	if all := k.All(); len(all) == 1 {
		return all[0]
	}
	return nil
}

// urls returns the pages in an archive.
func urls(t *testing.T, r *warc.Reader) (all []string) {
	t.Helper()
	if err := r.Follow(t.Context(), map[string]int64{}, func(rec warc.Record) error {
		if rec.Type == "response" {
			all = append(all, rec.URL)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// untilCopied waits until a peer has all of an archive.
func untilCopied(t *testing.T, s *Sender, k *Keeper) *Copy {
	t.Helper()
	end, err := s.Archive.Position(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	overlaytest.Until(t, "the archive is copied", func() bool {
		c := copyOf(k)
		return c != nil && c.Whole() && c.Bytes() == sum(end)
	})
	c := copyOf(k)
	r, err := c.Archive()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := urls(t, r), urls(t, &s.Archive.Reader); !slices.Equal(got, want) {
		t.Errorf("copied %v, want %v", got, want)
	}
	return c
}
