package ownership_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/ownership"
)

// script is a play of the machine at one peer. A file has comments (#), the first state
// (start owner | start replica | start nothing), events (>), and what they lead to: the state
// (=) and the actions (!).
type script struct {
	rules ownership.Rules
	u     ownership.Unit
	base  *ownership.Lease
}

func member(name string) ownership.Member { return ownership.Member{ID: peer.ID(name), Store: 1} }

func near(string) []ownership.Member {
	return []ownership.Member{member("A"), member("B"), member("C")}
}

func lease(
	t *testing.T, prev *ownership.Lease, kind ownership.Kind, owner string,
) *ownership.Lease {
	t.Helper()
	l := ownership.Lease{Unit: "192.0.2.0/24", Epoch: 1, Kind: kind, Owner: member(owner),
		Prev: prev.ID(), Replicas: []peer.ID{"B"}}
	if prev != nil {
		l.Epoch = prev.Epoch + 1
	}
	for _, m := range near("") {
		if m != l.Owner {
			l.Witnesses = append(l.Witnesses, m)
		}
	}
	made, err := ownership.NewLease(l)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func certified(l *ownership.Lease, near bool, by ...string) ownership.Link {
	c := ownership.Certificate{Ballot: ownership.Ballot{N: 1, By: "A"}, Near: near}
	for _, p := range by {
		c.Signatures = append(c.Signatures, ownership.Signature{By: member(p)})
	}
	return ownership.Link{Lease: l, Cert: c}
}

// start sets the first state.
func (s *script) start(t *testing.T, as string) {
	s.base = lease(t, nil, ownership.Claim, "A")
	s.u = ownership.Unit{Name: s.base.Unit, Self: member("A"),
		Record: ownership.Record{certified(s.base, true, "A", "B")}}
	switch as {
	case "owner":
		s.u.State, s.u.Copy = ownership.Owned, ownership.Complete
		s.u.Replicas = []peer.ID{"B"}
	case "replica":
		s.u.Self = member("B")
		s.u.State, s.u.Copy = ownership.Replica, ownership.Complete
	case "nothing":
		s.u.Record, s.base = nil, nil
	default:
		t.Fatalf("start %q", as)
	}
}

// kinds are the events of a script by their names; words after the name are arguments.
var kinds = map[string]ownership.EventKind{
	"wanted": ownership.Wanted, "seen": ownership.Seen, "answer": ownership.Answered,
	"retried": ownership.Retried, "decided": ownership.Decided,
	"accepted": ownership.Accepted, "flushed": ownership.Flushed,
	"received": ownership.Received, "replica-lost": ownership.ReplicaLost,
	"owner-silent": ownership.OwnerSilent, "owner-heard": ownership.OwnerHeard,
	"quorum-lost": ownership.QuorumLost, "quorum-back": ownership.QuorumBack,
	"hindered": ownership.Hindered, "freed": ownership.Freed, "restarted": ownership.Restarted,
	"copy-lost": ownership.CopyLost, "state-received": ownership.StateReceived,
}

// event makes the event of a line.
func (s *script) event(t *testing.T, words []string) ownership.Event {
	e := ownership.Event{Kind: kinds[words[0]], Near: near}
	for _, m := range near("") {
		if m != s.u.Self {
			e.Set = append(e.Set, m)
		}
	}
	if e.Kind == 0 {
		t.Fatalf("event %q", words)
	}
	if len(words) > 1 {
		e.Peer = member(words[1])
	}
	switch e.Kind {
	case ownership.Accepted:
		e.Lease = lease(t, s.u.Lease(), ownership.Handover, words[1])
	case ownership.Seen, ownership.StateReceived:
		by := []string{"B", "C"}
		if slices.Contains(words, "forged") {
			by = by[:1]
		}
		next := lease(t, s.base, ownership.Takeover, words[1])
		e.Record = ownership.Record{certified(s.base, true, "A", "B"),
			certified(next, false, by...)}
	case ownership.Hindered, ownership.Freed:
		e.Reasons = ownership.DiskFull
	case ownership.Answered:
		e.Reply = s.reply(t, words[1:])
	}
	return e
}

// reply makes the reply of an elector to the proposal under way, or of a witness.
func (s *script) reply(t *testing.T, words []string) ownership.Reply {
	re := ownership.Reply{Topic: ownership.Prepare, By: member(words[0]),
		Prev: s.u.Lease().ID(), Ballot: s.u.Ask.Ballot}
	if s.u.Ask.Phase == ownership.Signing {
		re.Topic = ownership.Sign
	}
	for i, w := range words[1:] {
		switch w {
		case "taken":
			re.Refusal, re.Ballot = ownership.BallotTaken, ownership.Ballot{N: 7, By: "C"}
		case "voted":
			re.Topic, re.Voted = ownership.Heartbeat, true
		case "signed":
			re.Signed = ownership.Ballot{N: 1, By: "C"}
			re.Lease = lease(t, s.u.Lease(), ownership.Takeover, words[i+2])
		}
	}
	return re
}

// line describes an action.
func line(a ownership.Action) string {
	text := "! " + a.Kind.String()
	for _, m := range a.To {
		text += " " + string(m.ID)
	}
	switch q := a.Request; {
	case a.Kind == ownership.Send && q.Topic == ownership.Prepare:
		text += fmt.Sprintf(": prepare ballot %d", q.Ballot.N)
	case a.Kind == ownership.Send:
		text += fmt.Sprintf(": sign %v by %s at ballot %d", q.Lease.Kind, string(q.Lease.Owner.ID),
			q.Ballot.N)
	}
	return text
}

// TestScripts plays the scripts in testdata.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d scripts, want at least 5; %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			var s script
			for l := range strings.Lines(string(raw)) {
				mark, text, _ := strings.Cut(strings.TrimSpace(l), " ")
				switch mark {
				case "start":
					s.start(t, text)
				case ">":
					u, acts := s.rules.Step(s.u, s.event(t, strings.Fields(text)))
					s.u = u
					out.WriteString(l)
					fmt.Fprintf(&out, "= %v\n", u)
					for _, a := range acts {
						fmt.Fprintln(&out, line(a))
					}
					continue
				case "=", "!":
					continue
				}
				out.WriteString(l)
			}
			if *update {
				if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if !bytes.Equal(out.Bytes(), raw) {
				t.Errorf("got\n%s\nwant\n%s", out.Bytes(), raw)
			}
		})
	}
}
