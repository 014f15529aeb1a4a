package overlay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
	libp2p "github.com/libp2p/go-libp2p-record"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/routing"

	"peerd/overlay/record"
)

// newest is a Validator of numbers; the greatest is the best.
type newest struct{}

func (newest) Validate(_ string, val []byte) error {
	_, err := strconv.ParseUint(string(val), 10, 32)
	return err
}

func (newest) Select(_ string, vals [][]byte) (int, error) {
	best, at := uint64(0), 0
	for i, v := range vals {
		n, err := strconv.ParseUint(string(v), 10, 32)
		if err != nil {
			return 0, err
		}
		if n > best {
			best, at = n, i
		}
	}
	return at, nil
}

// keeping is a Validator of numbers that keeps the one that is held.
type keeping struct{ newest }

// Replaces implements judging.
func (keeping) Replaces([]byte, []byte) bool { return false }

// A record that no peer took, because all hold another one that is not better here, was refused.
func TestValuesRefused(t *testing.T) {
	nets := mesh(t, 3)
	const key = "/test/refused"
	mustPut(t, nets[1], key, "5", 2, 0)
	drop(t, nets[0], key)
	for _, n := range nets[1:] {
		n.values.local.signers.validators = map[string]libp2p.Validator{"test": keeping{}}
	}
	_, _, err := nets[0].Values().Put(t.Context(), key, []byte("7"))
	var refused *record.RefusedError
	if !errors.As(err, &refused) || len(refused.Held) != 2 {
		t.Fatalf("Put() = %v, want that two peers refused", err)
	}
	for id, val := range refused.Held {
		if string(val) != "5" || id == nets[0].Host.ID() {
			t.Errorf("%v holds %s, want that another peer holds 5", id, val)
		}
	}
	nets[2].values.local.signers.validators = nil
	mustPut(t, nets[0], key, "7", 1, 0)
}

// mesh starts n peers that all know each other.
func mesh(t *testing.T, n int) []*Net {
	t.Helper()
	nets := []*Net{newNet(t, 1, "values")}
	for i := 1; i < n; i++ {
		nets = append(nets, newNet(t, int64(i+1), "values", nets[0]))
	}
	for _, a := range nets {
		eventually(t, "full routing tables", func() bool {
			if a.DHT.RoutingTable().Size() == n-1 {
				return true
			}
			a.DHT.RefreshRoutingTable()
			return false
		})
	}
	return nets
}

func mustPut(t *testing.T, n *Net, key, val string, acks, rejects int) {
	t.Helper()
	a, r, err := n.Values().Put(t.Context(), key, []byte(val))
	if err != nil || a != acks || r != rejects {
		t.Errorf("Put(%s) = %d, %d, %v, want %d, %d", val, a, r, err, acks, rejects)
	}
}

func mustGet(t *testing.T, n *Net, key, want string) {
	t.Helper()
	got, err := n.Values().Get(t.Context(), key)
	if err != nil || string(got) != want {
		t.Errorf("Get(%s) = %q, %v, want %q", key, got, err, want)
	}
}

func TestValuesOfOne(t *testing.T) {
	n := newNet(t, 1, "values")
	const key = "/test/alone"
	if _, err := n.Values().Get(t.Context(), key); !errors.Is(err, ErrNotFound) ||
		!errors.Is(err, routing.ErrNotFound) {
		t.Errorf("Get = %v, want ErrNotFound", err)
	}
	mustPut(t, n, key, "5", 0, 0)
	mustPut(t, n, key, "5", 0, 0)
	mustGet(t, n, key, "5")
	mustPut(t, n, key, "4", 0, 1)
	mustGet(t, n, key, "5")
	if _, _, err := n.Values().Put(t.Context(), key, []byte("no number")); err == nil {
		t.Error("Put() = nil for a value that the validator refuses, want an error")
	}
}

func TestValuesCountAnswers(t *testing.T) {
	nets := mesh(t, 5)
	const key = "/test/counted"
	mustPut(t, nets[0], key, "5", 4, 0)
	mustPut(t, nets[0], key, "5", 4, 0)
	for _, n := range nets {
		mustGet(t, n, key, "5")
	}
	mustPut(t, nets[1], key, "6", 4, 0)
	mustPut(t, nets[2], key, "4", 0, 1) // its own record is better: no peer is asked
	// Without its own record it has to learn it from the others.
	if err := nets[3].cfg.Datastore.Delete(t.Context(), dsKey(key)); err != nil {
		t.Fatal(err)
	}
	mustPut(t, nets[3], key, "4", 0, 4)
	held, err := nets[3].values.local.get(t.Context(), key)
	if err != nil || string(held) != "6" {
		t.Errorf("the own record is %q, %v after losing, want the winner, 6", held, err)
	}
}

func TestValuesMendOwnCopy(t *testing.T) {
	nets := mesh(t, 4)
	const key = "/test/mended"
	mustPut(t, nets[0], key, "5", 3, 0)
	mustPut(t, nets[0], key, "7", 3, 0)
	local := nets[3].values.local
	if err := local.store.Delete(t.Context(), dsKey(key)); err != nil {
		t.Fatal(err)
	}
	if _, err := local.put(t.Context(), key, []byte("5")); err != nil {
		t.Fatal(err)
	}
	mustGet(t, nets[3], key, "7")
	held, err := local.get(t.Context(), key)
	if err != nil || string(held) != "7" {
		t.Errorf("the own record is %q, %v, want 7", held, err)
	}
}

func TestValuesConcurrentClaims(t *testing.T) {
	nets := mesh(t, 4)
	for round := range 5 {
		key := fmt.Sprintf("/test/claim-%d", round)
		lost := make([]bool, len(nets))
		done := make(chan struct{})
		for i, n := range nets {
			go func() {
				defer func() { done <- struct{}{} }()
				_, rejects, err := n.Values().Put(context.Background(), key,
					[]byte(strconv.Itoa(i+1)))
				lost[i] = rejects > 0 || err != nil
			}()
		}
		for range nets {
			<-done
		}
		best := strconv.Itoa(len(nets))
		for _, n := range nets {
			mustGet(t, n, key, best)
		}
		if lost[len(nets)-1] {
			t.Error("Put reported a reject or an error for the best claim, want success")
		}
	}
}

// forget makes the next lookup ask others.
func (r *holders) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lookups.Purge()
	r.all = lookupResult{}
}

// lookups counts the requests of lookups that f causes.
func lookups(t *testing.T, f func(ctx context.Context)) int {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ctx, events := routing.RegisterForQueryEvents(ctx)
	f(ctx)
	cancel() // closes events
	n := 0
	for e := range events {
		if e.Type == routing.SendingQuery {
			n++
		}
	}
	return n
}

func drop(t *testing.T, n *Net, key string) {
	t.Helper()
	if err := n.cfg.Datastore.Delete(t.Context(), dsKey(key)); err != nil {
		t.Fatal(err)
	}
}

func TestValuesReadWithoutLookup(t *testing.T) {
	nets := mesh(t, 6)
	const key = "/test/near"
	reader := nets[0]
	get := func(want string) int {
		reader.values.holders.forget()
		return lookups(t, func(ctx context.Context) {
			got, err := reader.Values().Get(ctx, key)
			if string(got) != want || want != "" && err != nil {
				t.Errorf("Get() = %q, %v, want %q", got, err, want)
			}
		})
	}
	if get("") == 0 {
		t.Error("no lookup was made for a record that no known member has")
	}
	mustPut(t, nets[1], key, "5", 5, 0)
	if n := get("5"); n != 0 {
		t.Errorf("a lookup sent %d requests, want none: the nearest holders have the record", n)
	}
	drop(t, reader, key)
	known := reader.values.holders.known(key)
	for i, want := range []bool{false, false, true} {
		for _, n := range nets {
			if n.Self() == known[i] {
				drop(t, n, key)
			}
		}
		if n := get("5"); (n > 0) != want {
			t.Errorf("%d of 5 members have no record: a lookup sent %d requests, want some: %v",
				i+1, n, want)
		}
	}
	for _, n := range nets[1:] {
		if held, err := n.values.local.get(t.Context(), key); err != nil || string(held) != "5" {
			t.Errorf("a member has %q, %v after a read with a lookup, want the record", held, err)
		}
	}
}

// A claim reads a key and writes it.
func TestValuesClaimWithOneLookup(t *testing.T) {
	nets := mesh(t, 4)
	claim := func(key string) int {
		return lookups(t, func(ctx context.Context) {
			if _, err := nets[0].Values().Get(ctx, key); !errors.Is(err, ErrNotFound) {
				t.Errorf("Get() = %v, want ErrNotFound", err)
			}
			acks, _, err := nets[0].Values().Put(ctx, key, []byte("1"))
			if acks != 3 || err != nil {
				t.Errorf("Put() = %d, %v, want 3 acks", acks, err)
			}
		})
	}
	nets[0].values.holders.forget()
	if n := claim("/test/claim"); n != 3 {
		t.Errorf("lookups sent %d requests, want 3: one to each member", n)
	}
	if n := claim("/test/other"); n != 0 {
		t.Errorf("lookups sent %d requests, want none: all members were just found", n)
	}
}

func TestLookupsAreForgotten(t *testing.T) {
	h := newHolders(nil, nil, Names{})
	now := time.Now()
	h.lookups.Add("a", lookupResult{[]peer.ID{"x"}, now.Add(-lookupFor / 2)})
	h.all = lookupResult{[]peer.ID{"y"}, now.Add(-lookupFor)}
	for _, c := range []struct {
		key  string
		now  time.Time
		want []peer.ID
	}{
		{"a", now, []peer.ID{"x"}}, {"a", now.Add(lookupFor / 2), nil}, {"b", now, nil},
		{"b", now.Add(-1), []peer.ID{"y"}},
	} {
		got, ok := h.remembered(c.key, c.now)
		if ok != (c.want != nil) || ok && !slices.Equal(got, c.want) {
			t.Errorf("remembered(%s, %v) = %v, %v, want %v", c.key, c.now.Sub(now), got, ok, c.want)
		}
	}
}

func TestValuesDeadReplicas(t *testing.T) {
	nets := mesh(t, 4)
	const key = "/test/dead"
	mustPut(t, nets[0], key, "5", 3, 0)
	for _, n := range nets[2:] {
		if err := n.Host.Close(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if acks, rejects, err := nets[0].Values().Put(ctx, key, []byte("6")); acks != 1 ||
		rejects != 0 || err != nil {
		t.Errorf("Put(6) = %d, %d, %v, want 1, 0, nil: one holder is left", acks, rejects, err)
	}
	mustGet(t, nets[1], key, "6")
}

// While a silent member is waited for, another one gets a record.
func TestValuesAskAgain(t *testing.T) {
	nets := mesh(t, 3)
	const key = "/test/again"
	asked, end := make(chan struct{}), make(chan struct{})
	nets[1].Host.SetStreamHandler(nets[1].Names.Record(), func(s network.Stream) {
		asked <- struct{}{}
		<-end
		_ = s.Reset()
	})
	defer close(end)
	got := make(chan string)
	go func() {
		val, err := nets[0].Values().Get(t.Context(), key)
		got <- fmt.Sprintf("%s, %v", val, err)
	}()
	<-asked // by the first round
	<-asked // by the second, so that the first is over
	if _, err := nets[2].values.local.put(t.Context(), key, []byte("5")); err != nil {
		t.Fatal(err)
	}
	if s := <-got; s != "5, <nil>" {
		t.Errorf("Get() = %s, want 5", s)
	}
}

func TestLocalSweep(t *testing.T) {
	n := newNet(t, 1, "values")
	ctx := t.Context()
	local := n.values.local
	for _, key := range []string{"/test/old", "/test/older"} {
		if _, err := local.put(ctx, key, []byte("1")); err != nil {
			t.Fatal(err)
		}
	}
	other := dsKey("/test/not-a-record")
	if err := local.store.Put(ctx, other, []byte("something else")); err != nil {
		t.Fatal(err)
	}
	if removed, err := local.sweep(ctx, time.Now()); removed != 0 || err != nil {
		t.Errorf("sweep() = %d, %v, want 0", removed, err)
	}
	if removed, err := local.sweep(ctx, time.Now().Add(2*local.age)); removed != 2 || err != nil {
		t.Errorf("sweep() = %d, %v, want 2", removed, err)
	}
	if raw, err := local.store.Get(ctx, other); err != nil ||
		!bytes.Equal(raw, []byte("something else")) {
		t.Errorf("the entry that is no record is %q, %v after sweep, want it unchanged", raw, err)
	}
}

func TestKnownPrefersConnected(t *testing.T) {
	nets := mesh(t, 3)
	known := nets[0].values.holders.known("/test/any")
	if len(known) != 2 || slices.Contains(known, nets[0].Self()) {
		t.Errorf("known() = %v, want the two others", known)
	}
}

// listing is a datastore in which something happens after its entries were listed.
type listing struct {
	ds.Batching
	after func()
}

func (l listing) Query(ctx context.Context, q query.Query) (query.Results, error) {
	defer l.after()
	return l.Batching.Query(ctx, q)
}

// A sweep leaves a record that has replaced a stale one since the records were listed.
func TestSweepLeavesNewRecords(t *testing.T) {
	t.Parallel()
	r := localRecordsOf(t, 4, newest{})
	ctx := t.Context()
	put := func(val string) {
		t.Helper()
		if held, err := r.put(ctx, "/test/key", []byte(val)); !held || err != nil {
			t.Errorf("put(%q) = %v, %v, want true", val, held, err)
		}
	}
	put("1")
	r.store = listing{r.store, func() { put("2") }}
	if removed, err := r.sweep(ctx, time.Now().Add(2*r.age)); removed != 0 || err != nil {
		t.Errorf("sweep() = %d, %v, want 0", removed, err)
	}
	if val, err := r.get(ctx, "/test/key"); string(val) != "2" || err != nil {
		t.Errorf("the record is %q, %v after the sweep, want 2", val, err)
	}
}
