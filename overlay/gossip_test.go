package overlay

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/peer"
)

// A peer that forwards invalid messages is soon not heard any more.
func TestInvalidGossip(t *testing.T) {
	victim := newNet(t, 1, "test-net")
	attacker := newNet(t, 2, "test-net", victim)
	topic := victim.Names.OwnerMap()
	var checked, late atomic.Int64 // late: of those that were sent at last
	reject := func(_ context.Context, _ peer.ID, m *pubsub.Message) pubsub.ValidationResult {
		checked.Add(1)
		if strings.HasPrefix(string(m.Data), "late") {
			late.Add(1)
		}
		return pubsub.ValidationReject
	}
	if err := victim.PubSub.RegisterTopicValidator(topic, reject); err != nil {
		t.Fatal(err)
	}
	joined, err := victim.PubSub.Join(topic)
	if err != nil {
		t.Fatal(err)
	}
	stop, err := joined.Relay()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	publish, err := attacker.PubSub.Join(topic)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the attacker sees the victim in the topic", func() bool {
		return len(publish.ListPeers()) == 1
	})
	sent := 0
	send := func(kind string) {
		sent++
		if err := publish.Publish(t.Context(), []byte(fmt.Sprint(kind, sent))); err != nil {
			t.Fatal(err)
		}
	}
	const most = 5 // invalidWeight * most² < acceptAbove
	eventually(t, "messages are checked", func() bool {
		send("early")
		time.Sleep(20 * time.Millisecond)
		return checked.Load() >= most
	})
	time.Sleep(200 * time.Millisecond) // what was under way
	for range 20 {
		send("late")
	}
	time.Sleep(500 * time.Millisecond)
	if n := late.Load(); n > 0 {
		t.Errorf("%d of the last 20 messages were checked, want none", n)
	}
}
