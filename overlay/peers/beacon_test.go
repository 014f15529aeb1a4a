package peers

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/record"

	"peerd/coords"
	"peerd/overlay/overlaytest"
)

const (
	testTopic = "/peerd/test/beacons/1"
	testDims  = 3
)

func identity(_ testing.TB, seed int64) (crypto.PrivKey, peer.ID) {
	return overlaytest.Identity(seed)
}

func testBeacon(id peer.ID, seq uint64, now time.Time) Beacon {
	return Beacon{
		Peer:     id,
		At:       coords.Coordinate{Vec: []float64{1, -2, 3.5}, Height: 4, Error: 0.5},
		Wait:     3 * time.Second,
		Capacity: 1,
		Version:  "0.1",
		Seq:      seq,
		Time:     now,
		Addrs:    []string{"/ip4/127.0.0.1/tcp/4101"},
		Traits: &coords.Traits{Lag: coords.Normal{Mean: 0.25, Variance: 4},
			PerKB: coords.Normal{Mean: -1.5, Variance: 0.5}},
		Trips:    Trips("123456\x05123456\xff"),
		Interval: 15 * time.Second,
	}
}

func mustSeal(t testing.TB, key crypto.PrivKey, b Beacon) []byte {
	t.Helper()
	raw, err := Seal(key, testTopic, b)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestBeaconSealOpen(t *testing.T) {
	key, id := identity(t, 1)
	want := testBeacon(id, 7, time.UnixMilli(1_800_000_000_123))
	raw := mustSeal(t, key, want)
	got, err := Open(raw, testTopic, testDims)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Open(Seal(b)) = %+v, want %+v", got, want)
	}
	if info := got.Info(); info.ID != id || len(info.Addrs) != 1 {
		t.Errorf("Info() = %v, want ID and one address", info)
	}
	if len(raw) > 260 {
		t.Errorf("size of an ordinary beacon = %d bytes, want at most 260", len(raw))
	}
}

func TestBeaconOpenRejects(t *testing.T) {
	key, id := identity(t, 1)
	otherKey, _ := identity(t, 2)
	now := time.Now()
	good := testBeacon(id, 1, now)
	raw := mustSeal(t, key, good)

	if _, err := Open(raw, testTopic+"x", testDims); !errors.Is(err, ErrBeacon) {
		t.Errorf("Open with another topic: %v, want ErrBeacon", err)
	}
	if _, err := Open(raw, testTopic, testDims+1); !errors.Is(err, ErrBeacon) {
		t.Errorf("Open with other dimensions: %v, want ErrBeacon", err)
	}
	if _, err := Seal(otherKey, testTopic, good); !errors.Is(err, ErrBeacon) {
		t.Errorf("Seal of the beacon of another peer: %v, want ErrBeacon", err)
	}
	for i := range raw {
		bent := append([]byte(nil), raw...)
		bent[i] ^= 1
		if b, err := Open(bent, testTopic, testDims); err == nil &&
			!reflect.DeepEqual(b.At, good.At) {
			t.Errorf("Open with byte %d changed = %+v, want an error or the same beacon", i, b)
		}
	}
	spoils := map[string]func(*Beacon){
		"NaN":           func(b *Beacon) { b.At.Vec = []float64{math.NaN(), 0, 0} },
		"infinite":      func(b *Beacon) { b.At.Height = math.Inf(1) },
		"error of 2":    func(b *Beacon) { b.At.Error = 2 },
		"negative wait": func(b *Beacon) { b.Wait = -time.Second },
		"endless wait":  func(b *Beacon) { b.Wait = math.MaxInt64 },
		"capacity":      func(b *Beacon) { b.Capacity = math.Inf(1) },
		"negative":      func(b *Beacon) { b.Capacity = -1 },
		"version":       func(b *Beacon) { b.Version = strings.Repeat("v", maxVersion+1) },
		"long address": func(b *Beacon) {
			b.Addrs = []string{"/dns/" + strings.Repeat("a", maxAddr)}
		},
		"long interval":     func(b *Beacon) { b.Interval = maxInterval + time.Second },
		"negative interval": func(b *Beacon) { b.Interval = -time.Second },
		"traits":            func(b *Beacon) { b.Traits = new(coords.Traits) },
		"half a trip":       func(b *Beacon) { b.Trips = make(Trips, tripSize+1) },
		"trips":             func(b *Beacon) { b.Trips = make(Trips, 17*tripSize) },
		"addresses": func(b *Beacon) {
			b.Addrs = slices.Repeat([]string{"/ip4/127.0.0.1"}, maxAddrs+1)
		},
	}
	for name, spoil := range spoils {
		b := testBeacon(id, 1, now)
		spoil(&b)
		if _, err := Open(mustSeal(t, key, b), testTopic, testDims); !errors.Is(err, ErrBeacon) {
			t.Errorf("%s: %v, want ErrBeacon", name, err)
		}
	}
	long := good
	for i := range 40 {
		long.Addrs = append(long.Addrs, fmt.Sprintf("/dns/%0200d", i))
	}
	if _, err := Seal(key, testTopic, long); !errors.Is(err, ErrBeacon) {
		t.Errorf("Seal of a beacon that is too long: %v, want ErrBeacon", err)
	}
}

func FuzzOpen(f *testing.F) {
	key, id := identity(f, 1)
	raw, err := Seal(key, testTopic, testBeacon(id, 1, time.Unix(1_800_000_000, 0)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := Open(raw, testTopic, testDims)
		if err != nil {
			if !errors.Is(err, ErrBeacon) {
				t.Fatalf("Open: %v, want an error that wraps ErrBeacon", err)
			}
			return
		}
		if err := b.validate(testDims); err != nil {
			t.Fatalf("Open accepted an invalid beacon: %v", err)
		}
		if claim, err := peek(raw); err != nil || claim.Peer != b.Peer || claim.Seq != b.Seq {
			t.Fatalf("peek = %+v, %v, want the beacon that Open returns", claim, err)
		}
	})
}

// The payload of an envelope is untrusted, too: any peer can sign anything.
func FuzzUnmarshalBeacon(f *testing.F) {
	key, id := identity(f, 1)
	s := signedBeacon{encoded: encode(testBeacon(id, 1, time.Unix(1_800_000_000, 0)))}
	raw, err := s.MarshalRecord()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var s signedBeacon
		if s.UnmarshalRecord(raw) != nil {
			return
		}
		b, err := s.decode(&record.Envelope{PublicKey: key.GetPublic()})
		if err != nil || b.validate(testDims) != nil {
			return
		}
		b.Info()
		if d := b.At.Distance(testBeacon(id, 1, b.Time).At); math.IsNaN(d) || math.IsInf(d, 0) {
			t.Fatalf("Distance = %v, want a finite number", d)
		}
		again := signedBeacon{encoded: encode(b)}
		if _, err := again.MarshalRecord(); err != nil {
			t.Fatal(err)
		}
	})
}
