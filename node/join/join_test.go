package join_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/node"
	"peerd/node/config"
	"peerd/node/join"
	"peerd/overlay/admission"
	"peerd/overlay/overlaytest"
	"peerd/store"
)

// newHome returns a new home with settings for loopback.
func newHome(t *testing.T) config.Home {
	t.Helper()
	h, err := config.Init(filepath.Join(t.TempDir(), "home"))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// running runs the peer of a home until the test ends.
func running(t *testing.T, h config.Home) *node.Node {
	t.Helper()
	c := config.Default()
	c.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
	c.Crawl.AllowNet = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	p, err := h.NetworkProfile(c, "")
	if err != nil {
		t.Fatal(err)
	}
	n, err := node.New(node.Options{Home: h, Config: c, Profile: p, UserAgent: "test"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Run() = %v", err)
		}
	})
	return n
}

func found(t *testing.T, mode admission.Mode) (config.Home, config.Profile) {
	t.Helper()
	h := newHome(t)
	p := config.NewProfile()
	p.Name, p.Seeds, p.Admission = "gardens", []string{"https://example.org/"}, string(mode)
	p.Scope.Mode = "domains"
	p, err := join.Found(h, p)
	if err != nil {
		t.Fatal(err)
	}
	return h, p
}

func terms() join.Terms { return join.Terms{Expires: time.Now().Add(time.Hour), Uses: 1} }

// A founder invites, a new peer joins by the line, and both are connected; the invitation is then
// used up.
func TestFoundInviteJoin(t *testing.T) {
	for _, mode := range []admission.Mode{admission.Open, admission.Invite, admission.Closed} {
		t.Run(string(mode), func(t *testing.T) {
			first, p := found(t, mode)
			founder := running(t, first)
			second := newHome(t)
			id, err := second.PeerID()
			if err != nil {
				t.Fatal(err)
			}
			invitation := terms()
			if mode == admission.Closed {
				_, err := join.Invite(first, p, founder.Addrs(), invitation)
				if !errors.Is(err, admission.ErrMayNotInvite) {
					t.Errorf("Invite(any peer) = %v, want ErrMayNotInvite", err)
				}
				invitation.Peer = id
			}
			line, err := join.Invite(first, p, founder.Addrs(), invitation)
			if err != nil {
				t.Fatal(err)
			}
			if line, err = join.ParseLine(line.String()); err != nil {
				t.Fatal(err)
			}
			got, err := join.Join(t.Context(), second, line)
			if err != nil {
				t.Fatal(err)
			}
			if got.NetworkID() != p.NetworkID() || !slices.Equal(got.Seeds, p.Seeds) {
				t.Errorf("joined %s with seeds %v", got.NetworkID(), got.Seeds)
			}
			joined := running(t, second)
			overlaytest.Until(t, "connected", func() bool {
				return founder.Status().Directory == 1 && joined.Status().Directory == 1
			})
			if _, err := join.Join(t.Context(), newHome(t), line); mode != admission.Open &&
				!errors.Is(err, admission.ErrRefused) {
				t.Errorf("a third peer with the same line: %v, want ErrRefused", err)
			}
		})
	}
}

// A home of another network does not use an invitation up.
func TestJoinKeepsTheInvitation(t *testing.T) {
	first, p := found(t, admission.Invite)
	founder := running(t, first)
	line, err := join.Invite(first, p, founder.Addrs(), terms())
	if err != nil {
		t.Fatal(err)
	}
	other, _ := found(t, admission.Invite)
	if _, err := join.Join(t.Context(), other, line); !errors.Is(err, config.ErrOtherProfile) {
		t.Errorf("Join() = %v, want ErrOtherProfile", err)
	}
	used := newHome(t) // in the network without a profile
	n, err := node.New(node.Options{Home: used, Config: config.Default(),
		Profile: config.DefaultProfile(), UserAgent: "test", Alone: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := join.Join(t.Context(), used, line); !errors.Is(err, store.ErrLocked) {
		t.Errorf("Join() while the peer runs = %v, want ErrLocked", err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := join.Join(t.Context(), used, line); !errors.Is(err, node.ErrOtherNetwork) ||
		strings.Contains(err.Error(), "\n") || used.HasProfile() {
		t.Errorf("Join() of a used home = %v, want ErrOtherNetwork in one line", err)
	}
	if _, err := join.Found(used, p); !errors.Is(err, node.ErrOtherNetwork) || used.HasProfile() {
		t.Errorf("Found() in a used home = %v, want ErrOtherNetwork", err)
	}
	named := newHome(t)
	if err := named.Set("profile", "rules.toml"); err != nil {
		t.Fatal(err)
	}
	if _, err := join.Join(t.Context(), named, line); err == nil || named.HasProfile() ||
		!strings.Contains(err.Error(), `profile = "rules.toml"`) {
		t.Errorf("Join() with a profile in config.toml = %v, want an error that names it", err)
	}
	if _, err := join.Join(t.Context(), newHome(t), line); err != nil {
		t.Errorf("Join() with a new home = %v", err)
	}
}

// A peer that sends another profile than the line names is not believed.
func TestJoinChecksTheProfile(t *testing.T) {
	first, p := found(t, admission.Open)
	founder := running(t, first)
	line, err := join.Invite(first, p, founder.Addrs(), terms())
	if err != nil {
		t.Fatal(err)
	}
	line.Digest[31] ^= 1
	h := newHome(t)
	if _, err := join.Join(t.Context(), h, line); !errors.Is(err, join.ErrProfile) {
		t.Errorf("Join() = %v, want ErrProfile", err)
	}
	if _, err := os.Stat(h.ProfileFile()); err == nil {
		t.Error("the profile was saved")
	}
}

// A home that has only the profile of an invite network does not start.
func TestProfileAlone(t *testing.T) {
	_, p := found(t, admission.Invite)
	h := newHome(t)
	if err := h.SaveNetwork(p, nil); err != nil {
		t.Fatal(err)
	}
	_, err := node.New(node.Options{Home: h, Config: config.Default(), Profile: p})
	if !errors.Is(err, admission.ErrNoMember) || !strings.Contains(err.Error(), "peerd join") {
		t.Errorf("New() = %v, want ErrNoMember and advice", err)
	}
}

func TestParseAddr(t *testing.T) {
	_, id := overlaytest.Identity(1)
	end := "/p2p/" + id.String()
	_, other := overlaytest.Identity(2)
	for text, want := range map[string]string{
		"example.org:4101":                         "/dns/example.org/tcp/4101" + end,
		"192.0.2.1:4101":                           "/ip4/192.0.2.1/tcp/4101" + end,
		"[2001:db8::1]:4101":                       "/ip6/2001:db8::1/tcp/4101" + end,
		"/dnsaddr/example.org":                     "/dnsaddr/example.org" + end,
		"/ip4/192.0.2.1/tcp/1":                     "/ip4/192.0.2.1/tcp/1" + end,
		"/ip4/1.2.3.4/tcp/1/p2p/" + other.String(): "",
		"example.org":                              "", "": "", ":1": "", "a:b": "", "/x": "",
	} {
		got, err := join.ParseAddr(text, id)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("ParseAddr(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestShareable(t *testing.T) {
	all := []string{"/ip4/127.0.0.1/tcp/1", "/ip4/192.168.1.2/tcp/1", "/ip6/fe80::1/tcp/1",
		"/ip4/11.1.2.3/tcp/1"}
	if got := join.Shareable(all); !slices.Equal(got, []string{all[3], all[1]}) {
		t.Errorf("Shareable() = %v", got)
	}
	if got := join.Shareable(all[:1]); !slices.Equal(got, all[:1]) {
		t.Errorf("Shareable(loopback) = %v", got)
	}
}

func exampleLine(t testing.TB) join.Line {
	t.Helper()
	_, id := overlaytest.Identity(1)
	a, err := peer.AddrInfoFromString("/ip4/192.0.2.1/tcp/4101/p2p/" + id.String())
	if err != nil {
		t.Fatal(err)
	}
	return join.Line{Network: "gardens-0123456789abcdef", Digest: [32]byte{1, 2},
		Peers: []peer.AddrInfo{*a}, Invitation: []byte("sealed")}
}

// Every change of a character, and every cut, is noticed; white space is ignored.
func TestLine(t *testing.T) {
	want := exampleLine(t)
	text := want.String()
	got, err := join.ParseLine(text[:20] + "\r\n  " + text[20:] + "\n")
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("ParseLine() = %+v, %v, want %+v", got, err, want)
	}
	for i := range text {
		changed := []byte(text)
		changed[i] = 'A'
		if text[i] == 'A' {
			changed[i] = 'B'
		}
		for _, bad := range []string{string(changed), text[:i]} {
			if l, err := join.ParseLine(bad); !errors.Is(err, join.ErrLine) {
				t.Errorf("ParseLine(%q) = %+v, %v, want ErrLine", bad, l, err)
			}
		}
	}
}

func FuzzParseLine(f *testing.F) {
	f.Add(exampleLine(f).String())
	f.Add("peerd1-")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := join.ParseLine(text)
		if err != nil {
			return
		}
		again, err := join.ParseLine(l.String())
		if err != nil || again.Network != l.Network || again.Digest != l.Digest {
			t.Errorf("ParseLine(String()) = %+v, %v, want %+v", again, err, l)
		}
	})
}

// The explanation names the network, the scope and who may join.
func TestExplain(t *testing.T) {
	for mode, want := range map[admission.Mode]string{admission.Open: "everyone",
		admission.Invite: "invitation", admission.Closed: "named by their ID"} {
		_, p := found(t, mode)
		text := strings.Join(join.Explain(p), "\n")
		for _, want := range []string{p.NetworkID(), want, "the domains of the seeds",
			"https://example.org/"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: Explain() lacks %q:\n%s", mode, want, text)
			}
		}
	}
}
