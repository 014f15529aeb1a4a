package ownership_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"peerd/overlay/ownership"
)

// events are the events of a script by their names.
var events = func() map[string]ownership.EventKind {
	all := map[string]ownership.EventKind{}
	for k := ownership.Began; k <= ownership.Renewed; k++ {
		all[strings.ReplaceAll(k.String(), " ", "-")] = k
	}
	return all
}()

// reasons are the reasons of a script by their names.
var reasons = map[string]ownership.Reason{"chosen": ownership.ReasonChosen,
	"nearer": ownership.ReasonNearer, "hours": ownership.ReasonHours}

// scriptStart is when a script begins; revive is how long its votes may be used.
var scriptStart = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

const revive = 35 * time.Second

// event makes the event of a line: its name, and a successor (to=b), a reason (why=nearer), a
// second (at=35), decided, quorum, or, for loaded, a state, stale and decided.
func event(t *testing.T, words []string) ownership.Event {
	t.Helper()
	e := ownership.Event{Kind: events[words[0]], Revive: revive}
	if e.Kind == 0 {
		t.Fatalf("event %q is not known", words[0])
	}
	for _, w := range words[1:] {
		key, val, _ := strings.Cut(w, "=")
		switch key {
		case "to":
			e.To, e.Saved.To = val, val
		case "why":
			e.Why = reasons[val]
		case "at":
			var s int
			if _, err := fmt.Sscan(val, &s); err != nil {
				t.Fatalf("time %q: %v", w, err)
			}
			e.At = scriptStart.Add(time.Duration(s) * time.Second)
		case "decided":
			e.Decided, e.Saved.Decided = true, true
		case "quorum":
			e.Quorum = true
		case "stale":
			e.Saved.Doubt = ownership.Stale
		case "saved":
			for s := ownership.Deciding; s <= ownership.Granted; s++ {
				if s.String() == val {
					e.Saved.State = s
				}
			}
		default:
			t.Fatalf("word %q is not known", w)
		}
	}
	return e
}

// TestScripts plays the scripts in testdata. A file has comments (#), events (>), and what they
// lead to: the state (=) and the actions (!). Each script begins with a subnet of another peer.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 6 {
		t.Fatalf("found %d scripts, want at least 6; %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, raw)
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			} else if !bytes.Equal(got, raw) {
				t.Errorf("got\n%s\nwant\n%s", got, raw)
			}
		})
	}
}

func play(t *testing.T, script []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	var u ownership.Unit
	for l := range strings.Lines(string(script)) {
		mark, text, _ := strings.Cut(strings.TrimSpace(l), " ")
		switch mark {
		case "=", "!":
			continue
		case ">":
			next, acts := u.Step(event(t, strings.Fields(text)))
			u = next
			out.WriteString(l)
			fmt.Fprintf(&out, "= %v\n", u)
			for _, a := range acts {
				fmt.Fprintf(&out, "! %v\n", a)
			}
			continue
		}
		out.WriteString(l)
	}
	return out.Bytes()
}
