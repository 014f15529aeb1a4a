package node

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"io"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"peerd/overlay"
	"peerd/overlay/overlaytest"
	"peerd/overlay/wire"
)

var mutations = flag.Int("mutations", mutationsEach,
	"mutated messages that TestMutatedMessages sends to each protocol")

// Memory that a message may cost, at both peers and with what they do meanwhile. Bytes. Mutated
// messages are counted by the hundred, and bombs each: without limits they take 8 MB and more.
const (
	allowedPerMessage = 256 << 10
	allowedPerBomb    = 5 << 20
)

type fields = map[int]any

// seedMessages returns messages of a form that a protocol's handler reads, to be mutated. Their
// fields need not be valid; bytes are encoded. A protocol without seeds fails the test.
func seedMessages(t *testing.T, n overlay.Names, id protocol.ID) []any {
	t.Helper()
	subnet, sealed := []byte{192, 0, 2, 0, 24}, make([]byte, 300)
	position := []any{7, 9}
	at := fields{1: []float64{1, 2}, 2: 1.5, 3: 0.5}
	seeds := map[protocol.ID][]any{
		n.Coords(): {
			fields{1: sealed, 2: fields{1: make([]byte, 20), 2: 1.5, 3: 8, 4: 1, 5: 2}},
			fields{1: sealed, 3: true}, fields{4: fields{1: "peer"}}, fields{1: 1},
			fields{1: at, 2: []any{fields{1: sealed, 2: 100}}, 3: []any{fields{1: "p", 2: 5}}},
		},
		n.Record(): {
			fields{1: "/peerd-home/a.example", 2: sealed[:16]},
			fields{1: "/peerd-home/a.example", 3: sealed},
		},
		n.Heartbeat(): {fields{1: sealed, 2: sealed, 3: []any{fields{1: "p", 2: 5}}}},
		n.Nearest():   {fields{1: fields{1: at, 2: 1, 3: 1.0}, 2: 8}},
		n.Batch(): {fields{1: []any{fields{1: "a.example", 2: subnet, 3: subnet[:4],
			4: []any{fields{1: "http://a.example/x", 2: 3, 3: "b.example"}}}}}},
		n.Estimate(): {
			fields{1: sealed, 2: fields{1: "http://a.example/", 2: subnet[:4], 3: 1}, 3: true},
		},
		n.Handover(): {
			fields{1: subnet, 2: 2, 3: sealed, 4: sealed, 5: 3, 6: 1000, 7: position},
			fields{1: sealed},
		},
		n.HostTransfer(): {
			fields{1: "a.example", 2: subnet[:4], 3: sealed, 4: 1000},
			fields{1: map[string][]byte{"http://a.example": sealed}, 2: sealed,
				3: []any{fields{1: "http://a.example/x"}}, 4: []any{sealed[:16]}, 6: true},
		},
		n.Witness(): {
			fields{1: fields{1: sealed, 2: 7, 3: 1}},
			fields{2: fields{1: sealed, 2: []any{fields{1: subnet, 2: 3}}, 3: 1}},
			fields{3: fields{}},
		},
		n.Replica(): {
			fields{1: sealed},
			fields{2: fields{1: subnet, 2: 1, 3: sealed, 5: sealed, 7: 1, 8: 5, 9: position}},
			fields{3: fields{1: subnet, 2: position, 5: sealed}},
			fields{4: fields{1: subnet, 2: 5, 3: 1, 4: [][]byte{sealed}}},
			fields{5: fields{1: subnet}},
		},
		n.Copies():     {fields{1: [][]byte{subnet}}},
		n.Join():       {fields{1: sealed}, fields{}},
		n.Membership(): {fields{1: [][]byte{sealed, sealed}}, fields{2: "no"}},
		n.Search(): {
			fields{1: "apple -pear site:a.example"}, fields{2: fields{1: 100, 2: []int{5}, 3: 10}},
			fields{3: []int{0, 1}},
		},
		n.Trace(): {fields{1: "http://a.example/x"}},
		n.Feed(): {
			fields{1: []string{"a.example"}, 2: map[string]int64{"a.warc.gz": 7}},
			fields{1: true},
		},
		n.Plugin(): {fields{1: []string{"12D3KooWabc"}}, fields{2: sealed}},
		n.Mirror(): {
			fields{1: sealed, 2: 100},
			fields{1: "a.warc.gz", 2: 7, 3: sealed, 4: true, 6: 5},
		},
		// protobuf: a type, a key and a record; subscriptions and messages
		n.DHT(): {
			[]byte("\x08\x00\x12\x05/a/bc\x1a\x10\x0a\x05/a/bc\x12\x07valuexx"),
			[]byte("\x08\x01\x12\x05/a/bc"), []byte("\x08\x04\x12\x20" + strings.Repeat("k", 32)),
		},
		n.Gossip(): {
			[]byte("\x0a\x07\x08\x01\x12\x03abc"), []byte("\x12\x0a\x12\x03abc\x22\x03abc"),
		},
	}[id]
	if len(seeds) == 0 {
		t.Fatalf("no messages to mutate for %s: add some", id)
	}
	return seeds
}

// bombs returns messages with long lists of tiny elements, in every place of the first two levels.
func bombs() (all [][]byte) {
	const n = 100_000
	for _, tiny := range []byte{0x80, 0xa0} {
		list := slices.Concat(binary.BigEndian.AppendUint32([]byte{0x9a}, n),
			bytes.Repeat([]byte{tiny}, n))
		for i := range byte(9) {
			all = append(all, slices.Concat([]byte{0xa1, 1 + i}, list))
			for j := range byte(9) {
				all = append(all, slices.Concat([]byte{0xa1, 1 + i, 0xa1, 1 + j}, list),
					slices.Concat([]byte{0xa1, 1 + i, 0x81, 0xa1, 1 + j}, list))
			}
		}
	}
	return all
}

// oddities are values that a field may have instead of its own.
var oddities = []any{nil, false, true, 0, 1, -1, 300, math.MaxInt64, math.MinInt64,
	uint64(math.MaxUint64), 0.5, -1e300, math.NaN(), math.Inf(1), "", "a", "http://a.example/",
	strings.Repeat("x", 3000), []byte{}, make([]byte, 4), make([]byte, 300), []any{}, fields{},
	[]any{nil, fields{}}, []any{"a", 1}, []any{[]byte{1}}, fields{1: 1, 2: 2, 3: 3},
	fields{1: fields{1: []byte{1}}}}

// altered returns a copy of a message with a change in one place: it is still well formed.
func altered(rng *rand.Rand, v any) any {
	odd := oddities[rng.IntN(len(oddities))]
	for range rng.IntN(100) { // mostly another value of the same type
		if v == nil || reflect.TypeOf(odd) == reflect.TypeOf(v) {
			break
		}
		odd = oddities[rng.IntN(len(oddities))]
	}
	if rng.IntN(5) == 0 {
		return odd
	}
	switch v := v.(type) {
	case fields:
		out := maps.Clone(v)
		if len(v) == 0 {
			return fields{1 + rng.IntN(9): odd}
		}
		keys := slices.Sorted(maps.Keys(v))
		key := keys[rng.IntN(len(keys))]
		switch rng.IntN(6) {
		case 0:
			delete(out, key)
		case 1:
			out[1+rng.IntN(9)] = odd
		default:
			out[key] = altered(rng, v[key])
		}
		return out
	case []any:
		out := slices.Concat(v, v)[:max(len(v), rng.IntN(2*len(v)+1))]
		if len(out) > 0 {
			i := rng.IntN(len(out))
			out[i] = altered(rng, out[i])
		}
		return out
	case []byte:
		return scrambled(rng, v)
	case string:
		return string(scrambled(rng, []byte(v)))
	}
	return odd
}

// mutated returns one of the seeds with changes of its fields or of its bytes.
func mutated(t *testing.T, rng *rand.Rand, seeds []any) []byte {
	t.Helper()
	v := seeds[rng.IntN(len(seeds))]
	b, ok := v.([]byte)
	if ok {
		return scrambled(rng, b)
	}
	fine := rng.IntN(3) > 0
	for i := 0; fine && i <= rng.IntN(3); i++ {
		v = altered(rng, v)
	}
	b, err := wire.Marshal(v)
	if err != nil {
		t.Error(err)
	}
	if !fine {
		b = scrambled(rng, b)
	}
	return b
}

// scrambled returns bytes with some changes.
func scrambled(rng *rand.Rand, b []byte) []byte {
	b = slices.Clone(b)
	for range 1 + rng.IntN(6) {
		i := rng.IntN(len(b) + 1)
		switch rng.IntN(5) {
		case 0:
			b = b[:min(max(i, 1), len(b))]
		case 1:
			b = slices.Insert(b, i, byte(rng.Uint32()))
		case 2:
			b = slices.Insert(b, i, b[:min(i, 40)]...)
		case 3:
			b = slices.Insert(b, i, 0x9a, 0, byte(rng.IntN(3)), byte(rng.Uint32()), 0)
		default:
			if i < len(b) {
				b[i] ^= 1 << rng.IntN(8)
			}
		}
	}
	return b
}

// framed returns a body as a frame: mostly of the form that the protocol reads, which is compressed
// or plain; else of the other form, or with a wrong length.
func framed(t *testing.T, rng *rand.Rand, body []byte, compressed bool) []byte {
	t.Helper()
	switch rng.IntN(16) {
	case 0:
		return append(binary.AppendUvarint(nil, uint64(rng.Uint32()>>rng.IntN(32))), body...)
	case 1:
		compressed = !compressed
	}
	if compressed {
		return packed(t, body)
	}
	return append(binary.AppendUvarint(nil, uint64(len(body))), body...)
}

// packed returns a body as a compressed frame.
func packed(t *testing.T, body []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := wire.WriteBodyZ(&out, body); err != nil {
		t.Error(err)
	}
	return out.Bytes()
}

// send sends frames on one stream and waits until the peer has ended it.
func send(t *testing.T, from host.Host, to peer.ID, id protocol.ID, frames ...[]byte) {
	t.Helper()
	s, err := from.NewStream(context.Background(), to, id)
	for begin := time.Now(); err != nil; s, err = from.NewStream(context.Background(), to, id) {
		if time.Since(begin) > 5*time.Minute {
			t.Error(err)
			return
		}
		// The peer closes the connection when it learns that the other has none of its protocols.
		time.Sleep(10 * time.Millisecond)
	}
	_ = s.SetDeadline(time.Now().Add(5 * time.Minute))
	for _, f := range frames {
		if _, err := s.Write(f); err != nil {
			break // it was reset
		}
	}
	_ = s.CloseWrite()
	_, _ = io.Copy(io.Discard, s)
	_ = s.Reset()
}

// allocated returns how many bytes f allocates, with all that happens meanwhile.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// attackers send mutated messages to a protocol, each one stream after the other.
type attackers struct {
	id         protocol.ID
	seeds      []any
	compressed bool // the protocol's first message is
	rngs       [8]*rand.Rand
}

func newAttackers(t *testing.T, names overlay.Names, id protocol.ID) *attackers {
	t.Helper()
	a := &attackers{id: id, seeds: seedMessages(t, names, id),
		compressed: id == names.Batch() || id == names.Replica()}
	for i := range a.rngs {
		a.rngs[i] = rand.New(rand.NewPCG(uint64(i), uint64(len(id))))
	}
	return a
}

// attack sends messages on n streams by a function.
func (a *attackers) attack(t *testing.T, n int, send func(frames ...[]byte)) {
	t.Helper()
	var g sync.WaitGroup
	for i, rng := range a.rngs {
		g.Go(func() {
			for range (n + i) / len(a.rngs) {
				frames := make([][]byte, 1+rng.IntN(2))
				for i := range frames {
					frames[i] = framed(t, rng, mutated(t, rng, a.seeds), a.compressed)
				}
				send(frames...)
			}
		})
	}
	g.Wait()
}

// arrived is a stream on which all that the other peer sends has come; the answers are dropped.
type arrived struct {
	network.Stream // nil: its methods are not called
	in             *bytes.Reader
	conn           network.Conn
	id             protocol.ID
}

func (s *arrived) ID() string                                   { return "arrived" }
func (s *arrived) Protocol() protocol.ID                        { return s.id }
func (s *arrived) SetProtocol(protocol.ID) error                { return nil }
func (s *arrived) Conn() network.Conn                           { return s.conn }
func (s *arrived) Scope() network.StreamScope                   { return &network.NullScope{} }
func (s *arrived) Stat() (st network.Stats)                     { return st }
func (s *arrived) Read(b []byte) (int, error)                   { return s.in.Read(b) }
func (s *arrived) Write(b []byte) (int, error)                  { return len(b), nil }
func (s *arrived) Close() error                                 { return nil }
func (s *arrived) CloseRead() error                             { return nil }
func (s *arrived) CloseWrite() error                            { return nil }
func (s *arrived) Reset() error                                 { return nil }
func (s *arrived) ResetWithError(network.StreamErrorCode) error { return nil }
func (s *arrived) SetDeadline(time.Time) error                  { return nil }
func (s *arrived) SetReadDeadline(time.Time) error              { return nil }
func (s *arrived) SetWriteDeadline(time.Time) error             { return nil }

// hand gives frames to the handler of a protocol as libp2p does, but without a connection, which
// would take ten times as long.
func hand(t *testing.T, from, to host.Host, id protocol.ID, frames ...[]byte) {
	t.Helper()
	conns := to.Network().ConnsToPeer(from.ID())
	if len(conns) == 0 { // the peer has closed it
		send(t, from, to.ID(), id, frames...) // opens another one
		return
	}
	var in []byte
	for _, line := range []string{"/multistream/1.0.0\n", string(id) + "\n"} {
		in = append(binary.AppendUvarint(in, uint64(len(line))), line...)
	}
	s := &arrived{conn: conns[0], id: id, in: bytes.NewReader(slices.Concat(in,
		slices.Concat(frames...)))}
	if err := to.Mux().Handle(s); err != nil {
		t.Error(err)
	}
}

// panics collects what is logged about panics.
type panics struct {
	mu   sync.Mutex
	text []string
}

func (p *panics) Enabled(context.Context, slog.Level) bool { return true }
func (p *panics) WithAttrs([]slog.Attr) slog.Handler       { return p }
func (p *panics) WithGroup(string) slog.Handler            { return p }
func (p *panics) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if strings.Contains(a.Value.String(), "panic") {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.text = append(p.text, r.Message+": "+a.Value.String())
		}
		return true
	})
	return nil
}

// Whatever a peer sends to any of the protocols, nothing panics, and it costs little memory.
func TestMutatedMessages(t *testing.T) {
	testMutations(t, options(t), func(n overlay.Names) []protocol.ID {
		return slices.DeleteFunc(n.Protocols(), func(id protocol.ID) bool {
			return id == n.Membership() // the network is open
		})
	})
}

// So it is in a network for members, with what strangers are served.
func TestMutatedMemberships(t *testing.T) {
	o := options(t)
	founder, err := o.Home.PeerID()
	if err != nil {
		t.Fatal(err)
	}
	o.Profile.Admission, o.Profile.Founders = "invite", []string{founder.String()}
	testMutations(t, o, func(n overlay.Names) []protocol.ID {
		return []protocol.ID{n.Join(), n.Membership()}
	})
}

// testMutations attacks some of the protocols of a new peer.
func testMutations(t *testing.T, o Options, which func(overlay.Names) []protocol.ID) {
	found := &panics{}
	o.Logger = slog.New(found)
	n := newNode(t, o)
	defer running(t, n)()
	attacker := overlaytest.Host(t)
	if err := attacker.Connect(t.Context(), peer.AddrInfo{ID: n.net.Self(),
		Addrs: n.net.Host.Addrs()}); err != nil {
		t.Fatal(err)
	}
	until(t, time.Minute, "all protocols are served", func() bool {
		served := n.net.Host.Mux().Protocols()
		return !slices.ContainsFunc(which(n.net.Names), func(id protocol.ID) bool {
			return !slices.Contains(served, id)
		})
	})
	for _, id := range n.net.Host.Mux().Protocols() {
		if strings.HasPrefix(string(id), "/peerd/") &&
			!slices.Contains(n.net.Names.Protocols(), id) {
			t.Errorf("%s is served, but not in Names.Protocols", id)
		}
	}
	all := bombs()
	for nth, id := range which(n.net.Names) {
		some, begin := newAttackers(t, n.net.Names, id), time.Now()
		var each uint64 // on average, in the worst hundred
		for left := *mutations; left > 0; left -= 100 {
			n100 := min(left, 100)
			each = max(each, allocated(func() {
				some.attack(t, n100, func(frames ...[]byte) {
					if left == *mutations {
						send(t, attacker, n.net.Self(), id, frames...)
						return
					}
					hand(t, attacker, n.net.Host, id, frames...)
				})
			})/uint64(n100))
		}
		if each > allowedPerMessage {
			t.Errorf("%s: a message took %d bytes, on average of a hundred, want %d at most", id,
				each, allowedPerMessage)
		}
		var worst uint64
		list := all
		if id == n.net.Names.DHT() || id == n.net.Names.Gossip() {
			list = list[:8] // theirs is another encoding, and the DHT reads slowly
		}
		for i := nth % bombStep; i < len(list); i += bombStep { // other places for each protocol
			body := list[i]
			plain := append(binary.AppendUvarint(nil, uint64(len(body))), body...)
			small := packed(t, body)
			for _, frame := range [][]byte{plain, small} {
				bomb := func() { send(t, attacker, n.net.Self(), id, frame) }
				took := allocated(bomb)
				if took > allowedPerBomb { // perhaps something else happened at the same time
					took = min(took, allocated(bomb))
				}
				worst = max(worst, took)
			}
		}
		if worst > allowedPerBomb {
			t.Errorf("%s: the worst message took %d bytes, want %d at most", id, worst,
				allowedPerBomb)
		}
		t.Logf("%s: %d bytes a message, %d the worst bomb, %v", id, each, worst,
			time.Since(begin).Round(time.Millisecond))
	}
	found.mu.Lock()
	defer found.mu.Unlock()
	for _, text := range found.text[:min(len(found.text), 3)] {
		t.Error(text)
	}
}
