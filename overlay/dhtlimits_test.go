package overlay

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/iotest"
	"time"

	ds "github.com/ipfs/go-datastore"
	dssync "github.com/ipfs/go-datastore/sync"
	kb "github.com/libp2p/go-libp2p-kbucket"
	"github.com/libp2p/go-libp2p-kbucket/peerdiversity"
	record "github.com/libp2p/go-libp2p-record"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/time/rate"

	"peerd/overlay/overlaytest"
)

// localRecordsOf returns the records of a peer without others in its table.
func localRecordsOf(t *testing.T, k int, v record.Validator) *localRecords {
	t.Helper()
	_, self := overlaytest.Identity(1)
	table, err := kb.NewRoutingTable(20, kb.ConvertPeerID(self), time.Minute,
		overlaytest.Host(t).Peerstore(), time.Minute, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]record.Validator{"test": v}
	return &localRecords{store: dssync.MutexWrap(ds.NewMapDatastore()), self: self, k: k,
		validator: record.NamespacedValidator(all), table: table, age: recordAge,
		signers: newSigners(all, nil)}
}

// A peer holds the records of the keys that it is near to, and not of all.
func TestOnlyNearRecords(t *testing.T) {
	const k = 4
	r := localRecordsOf(t, k, newest{})
	self, table := r.self, r.table
	put := func(key string) error {
		_, err := r.offer(t.Context(), key, []byte("5"))
		return err
	}
	if err := put("/test/alone"); err != nil {
		t.Errorf("Put in a small network = %v, want nil", err)
	}
	var members []peer.ID
	for seed := range int64(60) {
		_, id := overlaytest.Identity(100 + seed)
		if ok, _ := table.TryAddPeer(id, true, false); ok {
			members = append(members, id)
		}
	}
	held := 0
	for i := range 200 {
		key := fmt.Sprint("/test/", i)
		nearer := 0
		for _, p := range members {
			if kb.Closer(p, self, key) {
				nearer++
			}
		}
		err := put(key)
		if want := nearer < nearFactor*k; (err == nil) != want {
			t.Fatalf("Put with %d of %d peers nearer = %v, want an error: %v", nearer, len(members),
				err, !want)
		}
		if err == nil {
			held++
		} else if !errors.Is(err, errFar) {
			t.Fatal(err)
		}
	}
	if len(members) < 2*nearFactor*k || held == 0 || held > 150 {
		t.Errorf("%d of 200 records held with %d other peers", held, len(members))
	}
}

// largest is a validator that knows better than Select which value stands.
type largest struct{ record.Validator }

func (largest) Validate(_ string, value []byte) error {
	if string(value) == "void" {
		return errors.New("void")
	}
	return nil
}
func (largest) Select(string, [][]byte) (int, error) { return 0, nil }
func (largest) Replaces(held, value []byte) bool     { return string(value) > string(held) }

// What another peer offers does not take the place of a record that its validator keeps.
func TestHeldRecordStays(t *testing.T) {
	t.Parallel()
	r := localRecordsOf(t, 4, largest{})
	for _, c := range []struct {
		val  string
		held bool
	}{{"b", true}, {"b", true}, {"a", false}, {"void", true}, {"a", true}, {"c", true}} {
		if ok, err := r.offer(t.Context(), "/test/key", []byte(c.val)); ok != c.held || err != nil {
			t.Errorf("offer(%q) = %v, %v, want %v", c.val, ok, err, c.held)
		}
	}
}

// A length alone makes no reader of the DHT allocate much, also if it comes in parts or after other
// requests.
func TestLargeDHTRequest(t *testing.T) {
	server, client := overlaytest.Host(t), overlaytest.Host(t)
	overlaytest.Introduce(server, client)
	frame := func(n int) []byte {
		return append(binary.AppendUvarint(nil, uint64(n)), make([]byte, n)...)
	}
	read := make(chan error)
	handle := func(in func(io.Reader) io.Reader) {
		h := &meteredHost{Host: server, meters: map[string]*rate.Limiter{}}
		h.SetStreamHandler("/dht", func(s network.Stream) {
			_, err := io.Copy(io.Discard, in(s))
			_ = s.Reset()
			read <- err
		})
	}
	for name, c := range map[string]struct {
		sent []byte
		want error
	}{
		"requests":       {slices.Concat(frame(10), frame(0), frame(maxDHTRequest), frame(1)), nil},
		"a large one":    {binary.AppendUvarint(frame(200), maxDHTRequest+1), errDHTRequest},
		"4 MiB":          {binary.AppendUvarint(nil, 4<<20), errDHTRequest},
		"a long length":  {bytes.Repeat([]byte{0x80}, 20), errDHTRequest},
		"an endless one": {binary.AppendUvarint(nil, 1<<63), errDHTRequest},
	} {
		for _, in := range []func(io.Reader) io.Reader{
			iotest.OneByteReader, func(r io.Reader) io.Reader { return r },
		} {
			handle(in)
			s, err := client.NewStream(t.Context(), server.ID(), "/dht")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Write(c.sent); err != nil {
				t.Fatal(err)
			}
			_ = s.CloseWrite() // or it was reset
			if err := <-read; !errors.Is(err, c.want) {
				t.Errorf("%s: read with %v, want %v", name, err, c.want)
			}
			_ = s.Reset()
		}
	}
}

// One network of public addresses fills a part of the routing table; local ones are not counted.
func TestDiverseRoutingTable(t *testing.T) {
	count := func(key string) (n int) {
		d := newDiverse(nil)
		for i := range 200 {
			g := peerdiversity.PeerGroupInfo{Id: peer.ID(fmt.Sprint(i)), Cpl: i % 20,
				IPGroupKey: peerdiversity.PeerIPGroupKey(key)}
			if d.Allow(g) {
				d.Increment(g)
				n++
			}
		}
		return n
	}
	for key, want := range map[string]int{
		"11.1.0.0": perTable, "24940": perTable, "127.0.0.0": 200, "10.20.0.0": 200,
		"192.168.0.0": 200, "unknown ASN: ffffffff000000000000000000000000": 200,
	} {
		if n := count(key); n != want {
			t.Errorf("%d peers of %s in the table, want %d", n, key, want)
		}
	}
}

// What one peer sends is read at a limited rate, and only what it sends.
func TestMeters(t *testing.T) {
	h := &meteredHost{meters: map[string]*rate.Limiter{}}
	a := h.meter("a", dhtRate, dhtBurst)
	if h.meter("a", dhtRate, dhtBurst) != a {
		t.Error("meter() made another meter for the same peer")
	}
	if !a.AllowN(time.Now(), dhtBurst) || a.AllowN(time.Now(), dhtBurst/2) {
		t.Error("a peer may not send the burst, or much more")
	}
	for i := range 3 * maxMeters {
		h.meter(fmt.Sprint(i), dhtRate, dhtBurst)
	}
	if len(h.meters) > maxMeters || h.meters["a"] != a {
		t.Errorf("%d meters, and that of a busy peer is kept: %v", len(h.meters),
			h.meters["a"] == a)
	}
}
