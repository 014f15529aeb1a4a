package attack

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"peerd/node"
	"peerd/overlay/wire"
)

// Attacks on memory and on places.

func resourceAttacks() []Attack {
	return []Attack{
		{
			Name: "memory", Unit: "MiB more than before", Limit: 256, Slow: true,
			Does: "sends 256 frames of 4 MiB, and lists of 100,000 empty maps, over many streams " +
				"of 16 keys at once",
			By: "64 MiB for messages of all peers (memory = 512MiB), a quarter for one; their " +
				"decoded size is computed before they are decoded",
			run: exhaustMemory,
		},
		{
			Name: "silent-streams", Unit: "s until a batch is acknowledged", Limit: 10,
			Does: "opens 600 streams of 5 keys and sends nothing",
			By:   "a stream takes a place with its first message, which comes within 2 s",
			run:  openSilently,
		},
	}
}

// What a peer with memory = 512MiB uses for messages, and what package wire has as a default.
const budget, usual = 64 << 20, 512 << 20

// heap returns the bytes of the heap that are in use and no garbage.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// bomb returns a message with a long list of empty maps in a field of its first one.
func bomb(field byte, n int) []byte {
	return slices.Concat([]byte{0xa1, field, 0x81, 0xa1, 4, 0x9a},
		binary.BigEndian.AppendUint32(nil, uint32(n)), bytes.Repeat([]byte{0xa0}, n))
}

// largeFrames returns messages that are small, or small when packed, and large in memory, and one
// that is large and never ends.
func largeFrames() ([][]byte, error) {
	small := bomb(1, 100_000)
	small = append(binary.AppendUvarint(nil, uint64(len(small))), small...)
	var packed bytes.Buffer
	err := wire.WriteBodyZ(&packed, bomb(1, 900_000))
	large := append(binary.AppendUvarint(nil, 4<<20), make([]byte, 4<<20-1)...) // a byte is missing
	return [][]byte{small, packed.Bytes(), large}, err
}

func exhaustMemory(e *arena) (outcome, error) {
	vs, err := e.peers(1)
	if err != nil {
		return outcome{}, err
	}
	wire.LimitMemory(budget)
	defer wire.LimitMemory(usual)
	const keys, streams = 16, 16
	frames, err := largeFrames()
	if err != nil {
		return outcome{}, err
	}
	var g sync.WaitGroup
	var sent, failed atomic.Int64
	before, most := heap(), uint64(0)
	all, err := e.introduced(vs[0], keys)
	if err != nil {
		return outcome{}, err
	}
	for _, s := range all {
		for range streams {
			g.Go(func() {
				for _, frame := range frames {
					if s.throw(vs[0], frame) == nil {
						sent.Add(1)
					} else {
						failed.Add(1)
					}
				}
			})
		}
	}
	ended := make(chan struct{})
	go func() { g.Wait(); close(ended) }()
	for running := true; running; {
		select {
		case <-ended:
			running = false
		case <-time.After(100 * time.Millisecond):
		}
		most = max(most, heap())
	}
	return outcome{float64(max(most, before)-before) / (1 << 20), fmt.Sprintf("%d frames sent, %d "+
		"refused, by %d keys; both sides are in this process", sent.Load(), failed.Load(),
		keys)}, nil
}

// introduced starts hostile peers that have introduced themselves.
func (e *arena) introduced(to *node.Node, n int) (all []*stranger, err error) {
	for range n {
		s, err := e.stranger()
		if err != nil {
			return nil, err
		}
		if err := s.introduce(to, nil); err != nil {
			return nil, fmt.Errorf("attack: introduce: %w", err)
		}
		all = append(all, s)
	}
	return all, nil
}

// throw sends a frame on a new stream for batches, and leaves the stream open for 3 s.
func (s *stranger) throw(to *node.Node, frame []byte) error {
	stream, err := s.host.NewStream(s.e.ctx, to.ID(), s.e.names.Batch())
	if err != nil {
		return err
	}
	defer func() { _ = stream.Reset() }()
	_ = stream.SetDeadline(time.Now().Add(3 * time.Second))
	if _, err := stream.Write(frame); err != nil {
		return err
	}
	_, _ = stream.Read(make([]byte, 1)) // until it is ended
	return nil
}

func openSilently(e *arena) (outcome, error) {
	s, err := e.site(6, 3)
	if err != nil {
		return outcome{}, err
	}
	vs, err := e.peers(1)
	if err != nil {
		return outcome{}, err
	}
	if err := e.crawl(vs[0], s); err != nil {
		return outcome{}, err
	}
	honest, err := e.stranger()
	if err != nil {
		return outcome{}, err
	}
	var open atomic.Int64
	for range 5 {
		hostile, err := e.stranger()
		if err != nil {
			return outcome{}, err
		}
		if err := hostile.host.Connect(e.ctx, addrOf(vs[0])); err != nil {
			return outcome{}, err
		}
		e.running.Go(func() { // all the time
			for e.ctx.Err() == nil {
				var streams []network.Stream
				for range 120 {
					st, err := hostile.host.NewStream(e.ctx, vs[0].ID(), e.names.Batch())
					if err == nil {
						streams = append(streams, st)
						open.Add(1)
					}
				}
				_ = e.sleep(time.Second)
				for _, st := range streams {
					_ = st.Reset()
				}
			}
		})
	}
	err = e.until("silent streams are open", func() bool { return open.Load() > 200 })
	if err != nil {
		return outcome{}, err
	}
	begin := time.Now()
	took := func() bool {
		result, err := honest.batch(vs[0], s.host, s.addr.Addr(), []string{s.url("/p1")})
		return err == nil && fmt.Sprint(result) == "1"
	}
	e.within(20*time.Second, took)
	return outcome{time.Since(begin).Seconds(), fmt.Sprintf("%d silent streams", open.Load())}, nil
}
