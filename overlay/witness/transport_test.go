package witness

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
	"peerd/overlay/overlaytest"
	"peerd/store"
)

// Three peers with real connections and databases form a witness set; when the owner
// stops it is voted out.
func TestOverStreams(t *testing.T) {
	t.Parallel()
	var hosts []host.Host
	for _, who := range testPeers[:3] {
		h := overlaytest.HostOf(t, who.key)
		for _, g := range hosts {
			if err := h.Connect(t.Context(),
				peer.AddrInfo{ID: g.ID(), Addrs: g.Addrs()}); err != nil {
				t.Fatal(err)
			}
		}
		hosts = append(hosts, h)
	}
	var all []*Service
	var stops []func()
	byID := map[peer.ID]*atomic.Pointer[Service]{}
	for _, h := range hosts {
		byID[h.ID()] = &atomic.Pointer[Service]{}
	}
	for i, h := range hosts {
		db, err := store.Open(t.TempDir(), store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		cfg := DefaultConfig()
		cfg.Host, cfg.Key, cfg.Protocol, cfg.Store = h, testPeers[i].key,
			"/peerd/test/witness/1.0.0", OnDB(db)
		cfg.Node = &fakeNode{send: func(ctx context.Context, p peer.ID, b []byte) ([]byte, error) {
			to := byID[p].Load()
			if to == nil {
				return nil, errLost
			}
			return to.AnswerHeartbeat(ctx, hosts[i].ID(), b)
		}, present: func() []peer.ID { return ids(testPeers[:3]) }}
		cfg.Interval, cfg.IdleInterval, cfg.Hold = 500*time.Millisecond, time.Second, 3*time.Second
		cfg.Promise, cfg.Gone = 4*time.Second, 10*time.Second
		if i > 0 {
			cfg.Members = 0
		}
		if err := cfg.Store.Write(map[string][]byte{keyInitialized: {1}}); err != nil {
			t.Fatal(err)
		}
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ran := make(chan error, 1)
		go func() { ran <- s.Run(ctx) }()
		byID[h.ID()].Store(s)
		stop := func() {
			byID[h.ID()].Store(nil)
			cancel()
			if err := <-ran; err != nil {
				t.Error(err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}
		all, stops = append(all, s), append(stops, stop)
	}
	until := time.Now().Add(10 * time.Minute)
	for all[0].WitnessSet() == nil {
		if time.Now().After(until) {
			t.Fatal("no witness set, want one")
		}
		<-time.After(10 * time.Millisecond)
	}
	set := all[0].WitnessSet()
	overlaytest.Until(t, "the quorum lease holds, with an end", func() bool {
		ok, end := all[0].QuorumLease()
		return ok && !end.IsZero()
	})
	tally, err := all[1].RequestVotes(t.Context(), testPeers[0].id, set,
		[]Proposal{{Subnet: subnet, Epoch: 2}})
	if err != nil || len(tally.HeardOwner)+len(tally.Failed) == 0 {
		t.Errorf("RequestVotes() = %+v, %v with the owner running; want refusals", tally, err)
	}
	stops[0]()
	for {
		tally, err := all[1].RequestVotes(t.Context(), testPeers[0].id, set,
			[]Proposal{{Subnet: subnet, Epoch: 2}})
		if err != nil {
			t.Fatal(err)
		}
		if e, won := tally.Takeover(subnet); won {
			now := time.Now()
			if _, err := lease.SealLease(lease.Lease{Subnet: subnet, Owner: testPeers[1].id,
				Epoch: 2, Issued: now, Expires: now.Add(time.Hour), Takeover: &e},
				testPeers[1].key); len(e.Votes) != 2 || err != nil && e.Votes == nil {
				t.Errorf("Takeover() has %d votes, %v; want 2", len(e.Votes), err)
			}
			break
		}
		if time.Now().After(until) {
			t.Fatalf("the owner is not voted out: heard by %v, failed %v",
				tally.HeardOwner, tally.Failed)
		}
		<-time.After(150 * time.Millisecond)
	}
	stops[1]()
	stops[2]()
	for _, h := range hosts {
		_ = h.Close()
	}
}

func TestOnDB(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(vals map[string][]byte, want map[string]string) {
		t.Helper()
		db, err := store.Open(dir, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := OnDB(db).Write(vals); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		if err := OnDB(db).Each(func(k string, v []byte) error {
			got[k] = string(v)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Errorf("Each() = %v, want %v", got, want)
		}
		for k, v := range want {
			if got[k] != v {
				t.Errorf("Each() has %q under %s, want %q", got[k], k, v)
			}
		}
	}
	write(map[string][]byte{"a": []byte("1"), "b": []byte("2")},
		map[string]string{"a": "1", "b": "2"})
	write(map[string][]byte{"a": nil, "c": []byte("3")}, map[string]string{"b": "2", "c": "3"})
}
