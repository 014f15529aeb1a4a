package witness

import (
	"context"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
	"peerd/overlay/overlaytest"
	"peerd/store"
)

// TestOverStreams has three peers with real connections and databases: a panel
// forms, holds, and the owner that dies is voted out.
func TestOverStreams(t *testing.T) {
	var hosts []host.Host
	for _, who := range folk[:3] {
		h := overlaytest.Host(t, libp2p.Identity(who.key))
		for _, g := range hosts {
			if err := h.Connect(t.Context(), peer.AddrInfo{ID: g.ID(), Addrs: g.Addrs()}); err != nil {
				t.Fatal(err)
			}
		}
		hosts = append(hosts, h)
	}
	var all []*Service
	var stops []func()
	for i, h := range hosts {
		db, err := store.Open(t.TempDir(), store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		cfg := DefaultConfig()
		cfg.Host, cfg.Key, cfg.Protocol, cfg.Store = h, folk[i].key, "/peerd/test/witness/1.0.0", OnDB(db)
		cfg.Interval, cfg.Hold, cfg.Promise, cfg.Gone = 50*time.Millisecond, 300*time.Millisecond, 400*time.Millisecond, 2*time.Second
		cfg.Peers = func() []peer.ID { return ids(folk[:3]) }
		if i > 0 {
			cfg.Members = 0
		}
		if err := cfg.Store.Write(map[string][]byte{keyBorn: {1}}); err != nil {
			t.Fatal(err)
		}
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ran := make(chan error, 1)
		go func() { ran <- s.Run(ctx) }()
		stop := func() {
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
	until := time.Now().Add(2 * time.Minute)
	for all[0].Panel() == nil || all[1].Heard(folk[0].id).IsZero() {
		if time.Now().After(until) {
			t.Fatal("no panel")
		}
		<-time.After(10 * time.Millisecond)
	}
	panel := all[0].Panel()
	if ok, end := all[0].Right(); !ok || end.IsZero() {
		t.Errorf("right %v until %v", ok, end)
	}
	tally, err := all[1].Ask(t.Context(), folk[0].id, panel, []Step{{subnet, 2}})
	if err != nil || len(tally.Hears)+len(tally.Failed) == 0 {
		t.Errorf("%+v, %v", tally, err)
	}
	stops[0]()
	for {
		tally, err := all[1].Ask(t.Context(), folk[0].id, panel, []Step{{subnet, 2}})
		if err != nil {
			t.Fatal(err)
		}
		if e, won := tally.Takeover(subnet); won {
			now := time.Now()
			if _, err := lease.SealLease(lease.Lease{Subnet: subnet, Owner: folk[1].id, Epoch: 2, Issued: now, Expires: now.Add(time.Hour), Takeover: &e}, folk[1].key); len(e.Votes) != 2 || err != nil && e.Votes == nil {
				t.Errorf("%d votes, %v", len(e.Votes), err)
			}
			break
		}
		if time.Now().After(until) {
			t.Fatalf("never voted out: %v, %v", tally.Hears, tally.Failed)
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
		if err := OnDB(db).Each(func(k string, v []byte) error { got[k] = string(v); return nil }); err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Errorf("%v, want %v", got, want)
		}
		for k, v := range want {
			if got[k] != v {
				t.Errorf("%s: %q, want %q", k, got[k], v)
			}
		}
	}
	write(map[string][]byte{"a": []byte("1"), "b": []byte("2")}, map[string]string{"a": "1", "b": "2"})
	write(map[string][]byte{"a": nil, "c": []byte("3")}, map[string]string{"b": "2", "c": "3"})
}
