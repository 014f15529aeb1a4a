package peers_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"peerd/overlay/peers"
)

type answerFunc func(ctx context.Context, from peer.ID, payload []byte) ([]byte, error)

func (f answerFunc) AnswerHeartbeat(
	ctx context.Context, from peer.ID, payload []byte,
) ([]byte, error) {
	return f(ctx, from, payload)
}

// A heartbeat brings its payload, the answer, and the beacons of both sides; a peer that stops
// is reported. The two exchange beacons in no other way.
func TestHeartbeats(t *testing.T) {
	var answered atomic.Int32
	var n atomic.Int32
	o := options{peers: func(c *peers.Config) {
		c.HeartbeatProtocol = "/heartbeat-test/1"
		c.Protocol = protocol.ID(fmt.Sprint("/of-one-peer/", n.Add(1)))
		c.Answerer = answerFunc(func(_ context.Context, _ peer.ID, payload []byte) ([]byte, error) {
			if string(payload) == "refused" {
				return nil, errors.New("refused")
			}
			answered.Add(1)
			return append([]byte("re: "), payload...), nil
		})
	}}
	a, _ := start(t, 1, testNetwork, o)
	b, stopB := start(t, 2, testNetwork, o)
	connect(t, a, b)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	send := func(payload string) (string, error) {
		got, err := a.peers.SendHeartbeat(ctx, b.net.Self(), []byte(payload))
		return string(got), err
	}
	eventually(t, time.Minute, "the first heartbeat is answered", func() bool {
		got, err := send("1")
		return err == nil && got == "re: 1"
	})
	for _, m := range []*member{a, b} {
		if m.peers.Directory().Len() != 1 {
			t.Errorf("%d peers are known after a heartbeat, want 1", m.peers.Directory().Len())
		}
	}
	if got, err := send("refused"); err == nil {
		t.Errorf("answer = %q, nil; want an error", got)
	}
	if got, err := send("2"); err != nil || got != "re: 2" {
		t.Errorf("answer after an error = %q, %v; want re: 2", got, err)
	}
	if n := answered.Load(); n != 2 {
		t.Errorf("%d heartbeats were answered, want 2", n)
	}
	began := time.Now()
	stopB()
	if _, err := send("3"); err == nil {
		t.Error("a heartbeat to a stopped peer was answered")
	}
	eventually(t, time.Minute, "the stopped peer is suspect", func() bool {
		l := a.peers.Directory().Liveness(b.net.Self())
		return l.State == peers.Suspect && !l.Since.Before(began) && l.Heard.Before(l.Since)
	})
}
