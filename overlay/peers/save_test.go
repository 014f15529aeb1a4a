package peers

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"
)

// recorder is a Saver that counts.
type recorder struct {
	calls int
	last  []peer.AddrInfo
	err   error
}

func (r *recorder) SavePeers(infos []peer.AddrInfo) error {
	r.calls++
	r.last = infos
	return r.err
}

// Known peers are saved when there is a new one or an address has changed, and again if that
// failed.
func TestSaveOfChanges(t *testing.T) {
	_, self := identity(t, 1)
	d := testDirectory(self, 10)
	r := &recorder{}
	s := &Service{env: &env{cfg: &Config{Saver: r}, log: slog.New(slog.DiscardHandler),
		dir: d.Directory}}
	seq := uint64(0)
	put := func(of int64, addr string) {
		t.Helper()
		key, id := identity(t, of)
		seq++
		b := testBeacon(id, seq, d.now)
		b.Addrs = []string{addr}
		if _, err := d.Put(mustSeal(t, key, b)); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, calls, known int) {
		t.Helper()
		if s.save(); r.calls != calls || len(r.last) != known {
			t.Errorf("%s: saved %d peers in %d calls, want %d in %d", what, len(r.last), r.calls,
				known, calls)
		}
	}

	want("without a peer", 0, 0)
	put(2, "/ip4/192.0.2.2/tcp/1")
	want("with one", 1, 1)
	put(2, "/ip4/192.0.2.2/tcp/1")
	want("with a new beacon of it", 1, 1)
	put(3, "/ip4/192.0.2.3/tcp/1")
	r.err = errors.New("disk full")
	want("with another one", 2, 2)
	r.err = nil
	want("after an error", 3, 2)
	put(3, "/ip4/192.0.2.3/tcp/2")
	want("with a new address", 4, 2)
	want("without a change", 4, 2)
}
