package optout

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/peer"
	"go.uber.org/goleak"

	"peerd/overlay/overlaytest"
	"peerd/overlay/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errScope = errors.New("out of scope")

// service returns a Service that notes what it receives.
func service(t *testing.T, ps *pubsub.PubSub, self peer.ID, obeyed ...string) (
	*Service, func() []string,
) {
	t.Helper()
	sites := &sites{obeyed: obeyed}
	s, err := New(Config{Self: self, PubSub: ps, Topic: "opt-outs", Every: time.Minute,
		Sites: sites, Logger: overlaytest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	return s, func() []string {
		sites.mu.Lock()
		defer sites.mu.Unlock()
		return append([]string(nil), sites.claimed...)
	}
}

// sites notes what is claimed, and accepts origins of https only.
type sites struct {
	obeyed []string

	mu      sync.Mutex
	claimed []string
}

func (*sites) Valid(origin string) error {
	if !strings.HasPrefix(origin, "https://") {
		return errScope
	}
	return nil
}

func (s *sites) Claim(origin string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claimed = append(s.claimed, origin)
}

func (s *sites) Obeyed() []string { return s.obeyed }

func message(t testing.TB, c any) *pubsub.Message {
	t.Helper()
	raw, err := wire.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return &pubsub.Message{Message: &pb.Message{Data: raw}}
}

// Claims are passed on once in a while for each origin, and each peer forwards only so many.
func TestValidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, got := service(t, nil, "self")
		send := func(from peer.ID, origin string) pubsub.ValidationResult {
			return s.validate(t.Context(), from, message(t, claim{origin, time.Now().UnixMilli()}))
		}
		if r := send("b", "https://a.example"); r != pubsub.ValidationAccept {
			t.Errorf("first claim: %v", r)
		}
		if r := send("c", "https://a.example"); r != pubsub.ValidationIgnore || len(got()) != 2 {
			t.Errorf("claim of another peer: %v, %d received; want ignored and 2", r, len(got()))
		}
		time.Sleep(relayGap)
		if r := send("b", "https://a.example"); r != pubsub.ValidationAccept {
			t.Errorf("claim after a while: %v", r)
		}
		for _, bad := range []any{claim{"http://a.example", 1}, claim{strings.Repeat("a", 600), 1},
			"text"} {
			if r := s.validate(t.Context(), "d", message(t, bad)); r != pubsub.ValidationReject {
				t.Errorf("%.40v: %v, want rejected", bad, r)
			}
		}
		accepted := 0
		for i := range 1000 {
			if send("e", fmt.Sprintf("https://%d.example", i)) == pubsub.ValidationAccept {
				accepted++
			}
		}
		if accepted > forwardRate.Burst+1 {
			t.Errorf("%d claims of a flood were passed on, want at most %d", accepted,
				forwardRate.Burst+1)
		}
		if r := send("b", "https://b.example"); r != pubsub.ValidationAccept {
			t.Errorf("claim of another peer during a flood: %v", r)
		}
	})
}

// What is obeyed is repeated, unless another peer has just done so, and not later because of other
// claims.
func TestRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := service(t, nil, "self", "https://a.example", "https://b.example")
		for i := range 1000 {
			_ = s.validate(t.Context(), peer.ID(fmt.Sprint("p", i)),
				message(t, claim{fmt.Sprintf("https://%d.example", i), 1}))
		}
		if due := s.due(time.Now()); len(due) != 0 {
			t.Errorf("due at the start: %v", due)
		}
		time.Sleep(time.Minute)
		_ = s.validate(t.Context(), "b", message(t, claim{"https://b.example", 1}))
		if due := s.due(time.Now()); len(due) != 1 || due[0] != "https://a.example" {
			t.Errorf("due after a minute: %v, want a.example", due)
		}
	})
}

// Claims are also repeated if more is obeyed than heard has room for.
func TestRepeatMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := make([]string, maxHeard+1)
		for i := range all {
			all[i] = fmt.Sprintf("https://%d.example", i)
		}
		s, _ := service(t, nil, "self", all...)
		every := time.Duration(len(all)) * repeatCost
		for range 4 {
			if due := s.due(time.Now()); len(due) > 0 {
				return
			}
			time.Sleep(every / 2)
		}
		t.Errorf("nothing is repeated after %v", 2*every)
	})
}

// If there are more than can be repeated in time, each has its turn.
func TestRepeatInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := make([]string, 400)
		for i := range all {
			all[i] = fmt.Sprintf("https://%d.example", i)
		}
		s, _ := service(t, nil, "self", all...)
		s.cfg.Every = 5 * time.Minute
		repeated := map[string]bool{}
		for range 20 + 2*len(all)/repeatMost {
			for _, origin := range s.due(time.Now()) {
				repeated[origin] = true
				s.note(origin, time.Now())
			}
			time.Sleep(s.cfg.Every / 20)
		}
		if len(repeated) < len(all) {
			t.Errorf("%d of %d opt-outs were repeated", len(repeated), len(all))
		}
	})
}

// A claim reaches peers that are not connected to its origin.
func TestGossip(t *testing.T) {
	peers := overlaytest.Peers(9, 3)
	gossip, end := context.WithCancel(context.Background())
	t.Cleanup(end)
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	var all []*Service
	var got []func() []string
	var before *peer.AddrInfo
	for _, p := range peers {
		h := overlaytest.HostOf(t, p.Key)
		ps, err := pubsub.NewGossipSub(gossip, h,
			pubsub.WithMessageSignaturePolicy(pubsub.StrictNoSign), pubsub.WithNoAuthor(),
			pubsub.WithMessageIdFn(func(m *pb.Message) string { return string(m.Data) }))
		if err != nil {
			t.Fatal(err)
		}
		s, claims := service(t, ps, p.ID)
		done.Go(func() {
			if err := s.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		if before != nil { // a line of peers
			if err := h.Connect(ctx, *before); err != nil {
				t.Fatal(err)
			}
		}
		before = &peer.AddrInfo{ID: h.ID(), Addrs: h.Addrs()}
		all, got = append(all, s), append(got, claims)
	}
	t.Cleanup(done.Wait)
	t.Cleanup(cancel)
	n := 0
	overlaytest.Until(t, "the last peer hears the first", func() bool { // the mesh takes a second
		n++
		_ = all[0].Publish(ctx, fmt.Sprintf("https://%d.example", n)) // fails before Run
		return len(got[2]()) > 0
	})
}

func FuzzParse(f *testing.F) {
	raw, err := wire.Marshal(claim{"https://a.example", 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		if origin, err := parse(raw); err == nil && len(origin) > maxMessage {
			t.Errorf("an origin of %d bytes", len(origin))
		}
	})
}
