package node

import (
	"bytes"
	"os"
	"testing"
	"time"

	"peerd/node/config"
	"peerd/node/events"
)

// eventsOf returns the events that a peer has written so far.
func eventsOf(t *testing.T, h config.Home) (all []events.Event) {
	t.Helper()
	text, err := os.ReadFile(h.EventsFile())
	if err != nil {
		t.Fatal(err)
	}
	r := events.NewReader(bytes.NewReader(text))
	for {
		e, err := r.Next()
		if err != nil {
			return all
		}
		all = append(all, e)
	}
}

// Both peers of an exchange write it down with the same number, and in between the times of the
// one that asked lie those of the other one. Both write their state, and the messages of the log.
func TestEventLog(t *testing.T) {
	a, b := options(t), options(t)
	a.Config.Events.Enabled, b.Config.Events.Enabled = true, true
	first := newNode(t, a)
	defer running(t, first)()
	b.Config.Bootstrap = first.Addrs()
	second := newNode(t, b)
	stop := running(t, second)
	defer stop()

	asked := func(x, y []events.Event) bool {
		for _, e := range x {
			q, ok := e.(*events.Exchange)
			if !ok || !q.Asked {
				continue
			}
			for _, e := range y {
				if r, ok := e.(*events.Exchange); ok && !r.Asked && r.ID == q.ID {
					for i := range q.Sent {
						if r.Received[i] < q.Sent[i]-1 || r.Sent[i] > q.Received[i]+1 {
							t.Fatalf("questions %+v, answers %+v", *q, *r)
						}
					}
					return q.Peer == r.Self && r.Peer == q.Self && len(q.Sent) == 3
				}
			}
		}
		return false
	}
	until(t, time.Minute, "an exchange is in both logs", func() bool {
		x, y := eventsOf(t, a.Home), eventsOf(t, b.Home)
		return asked(x, y) || asked(y, x)
	})
	stop()
	said, states := false, 0
	for _, e := range eventsOf(t, b.Home) {
		switch e := e.(type) {
		case *events.State:
			states++
		case *events.Message:
			said = said || e.Text == "peer started" && e.Details["peer"] == second.ID().String()
		}
	}
	if !said || states == 0 {
		t.Errorf("%d states, message of the start: %v", states, said)
	}
}

// A peer does not write events without being told to.
func TestNoEventLog(t *testing.T) {
	o := options(t)
	n := newNode(t, o)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(o.Home.EventsFile()); !os.IsNotExist(err) {
		t.Errorf("there is an event log: %v", err)
	}
}
