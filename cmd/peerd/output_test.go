package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"peerd/cmd/internal/cli"
	"peerd/node/admin"
)

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB",
		999_949: "999.9 kB", 999_950: "1.0 MB", 1 << 62: "4.6 EB"} {
		if got := cli.Size(n); got != want {
			t.Errorf("cli.Size(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestPrintable(t *testing.T) {
	in, want := "a\u00a0b\u2003c\x1bd\u200be\u00e9", "a b c\uFFFDd\uFFFDe\u00e9"
	if got := cli.Printable(in); got != want {
		t.Errorf("Printable(%q) = %q, want %q", in, got, want)
	}
}

// Texts from other peers must not control the terminal.
func TestTablesArePrintable(t *testing.T) {
	evil := "\x1b[2J\r\n\tx"
	at := time.Unix(0, 0)
	for name, show := range map[string]func(*bytes.Buffer) error{
		"status": func(b *bytes.Buffer) error { return showStatus(b, admin.Status{Network: evil}) },
		"peers": func(b *bytes.Buffer) error {
			return showPeers(b, []admin.Peer{{PeerID: "p", Version: evil, Addrs: []string{evil},
				RTTMs: 1}})
		},
		"subnets": func(b *bytes.Buffer) error {
			return showSubnets(b,
				[]admin.Subnet{{Subnet: evil,
					Proxy: &admin.Proxy{At: admin.Coordinate{Vec: []float64{1, 2}}}}})
		},
		"queue": func(b *bytes.Buffer) error {
			return showQueue(b, []admin.Host{{Host: evil, NextAt: &at, DelayMs: 1}})
		},
		"links": func(b *bytes.Buffer) error { return linkLine(b)(admin.Link{URL: evil}) },
	} {
		var b bytes.Buffer
		if err := show(&b); err != nil {
			t.Errorf("%s: error %v", name, err)
		}
		if strings.ContainsAny(b.String(), "\x1b\r\t") {
			t.Errorf("%s: %q contains control characters", name, b.String())
		}
		if name != "status" && strings.Count(b.String(), "\n") != 2 {
			t.Errorf("%s = %q, want a head and one line", name, b.String())
		}
	}
}

func TestEachURL(t *testing.T) {
	long := "http://a.example/" + strings.Repeat("x", 3*admin.MaxURLBytes)
	in := "\uFEFFhttp://a.example/1\r\n\n  # comment\n# another\n\t http://a.example/2 \n" + long +
		"\nhttp://a.example/3"
	var got []string
	if err := eachURL(strings.NewReader(in), func(u string) error {
		got = append(got, u)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	want := []string{"http://a.example/1", "http://a.example/2", long[:admin.MaxURLBytes+1],
		"http://a.example/3"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("eachURL() yielded %.60q", got)
	}
}

// A trace has what sites and other peers say.
func TestTraceIsPrintable(t *testing.T) {
	evil := "\x1b[2J\r\n\tx"
	state := admin.URLState{Why: evil, Captures: []admin.Capture{{Type: evil}},
		GivenUp: &admin.GivenUp{Error: evil}, CapturesUnread: evil}
	var b bytes.Buffer
	err := showTrace(&b, admin.Trace{URL: evil, Unplaced: evil, Unanswered: evil, Here: state,
		AtOwner: &state})
	if err != nil || strings.ContainsAny(b.String(), "\x1b\r\t") ||
		strings.Count(b.String(), "\n") != 14 {
		t.Errorf("trace = %q, %v, want 14 lines", b.String(), err)
	}
}
