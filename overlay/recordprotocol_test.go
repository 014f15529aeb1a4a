package overlay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"peerd/overlay/wire"
)

// ask sends one request. The error is that of a stream that was reset.
func ask(t *testing.T, from, to *Net, q recordRequest) (a recordAnswer, err error) {
	t.Helper()
	c, err := wire.Dial(t.Context(), from.Host, to.Self(), recordLimits,
		to.Names.Record())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { c.End(err) }()
	if err := c.Send(q); err != nil {
		return a, err
	}
	return a, c.Recv(&a)
}

func TestReadRecord(t *testing.T) {
	nets := mesh(t, 2)
	const key = "/test/read"
	mustPut(t, nets[0], key, "5", 1, 0)
	for _, c := range []struct {
		name string
		q    recordRequest
		want string
		same bool
	}{
		{"unknown", recordRequest{Key: key}, "5", false},
		{"known", recordRequest{Key: key, Known: digest([]byte("5"))}, "", true},
		{"another", recordRequest{Key: key, Known: digest([]byte("4"))}, "5", false},
		{"none", recordRequest{Key: "/test/none"}, "", false},
		{"none any more", recordRequest{Key: "/test/none", Known: digest([]byte("5"))}, "", false},
	} {
		a, err := ask(t, nets[0], nets[1], c.q)
		if err != nil || string(a.Record) != c.want || a.Same != c.same {
			t.Errorf("%s: %q, %v, %v, want %q, %v", c.name, a.Record, a.Same, err, c.want, c.same)
		}
	}
	for _, q := range []recordRequest{{}, {Key: strings.Repeat("k", maxKey+1)},
		{Key: key, Known: []byte("short")}, {Key: key, Known: make([]byte, 2*maxRecordMessage)}} {
		if a, err := ask(t, nets[0], nets[1], q); err == nil {
			t.Errorf("a request with a key of %d bytes and a digest of %d was answered: %v",
				len(q.Key), len(q.Known), a)
		}
	}
}

// A record that comes with a request is held unless there is a better one, or it is refused.
func TestPutRecord(t *testing.T) {
	nets := mesh(t, 2)
	const key = "/test/put"
	for _, c := range []struct {
		val, want string
		same      bool
	}{{"5", "", true}, {"5", "", true}, {"4", "5", false}, {"6", "", true}} {
		a, err := ask(t, nets[0], nets[1], recordRequest{Key: key, Record: []byte(c.val)})
		if err != nil || string(a.Record) != c.want || a.Same != c.same {
			t.Errorf("put %s: %q, %v, %v, want %q, %v", c.val, a.Record, a.Same, err, c.want,
				c.same)
		}
	}
	if a, err := ask(t, nets[0], nets[1],
		recordRequest{Key: key, Record: []byte("no number")}); err == nil {
		t.Errorf("an invalid record was answered: %v", a)
	}
}

// A peer holds no record for which others are nearer.
func TestPutRecordFar(t *testing.T) {
	nets := mesh(t, 4)
	near := nets[1].values.local
	near.k = 1
	refused := 0
	for i := range 40 {
		key := fmt.Sprintf("/test/far-%d", i)
		a, err := ask(t, nets[0], nets[1], recordRequest{Key: key, Record: []byte("5")})
		if err != nil || a.Record != nil || a.Same != near.near(key) {
			t.Errorf("put %s: %v, %v, near: %v", key, a, err, near.near(key))
		}
		if !a.Same {
			refused++
		}
	}
	if refused == 0 {
		t.Error("no record was refused")
	}
}

// Of several records that are put at once the best one is held, and whatever the order.
func TestPutRecordAtOnce(t *testing.T) {
	nets := mesh(t, 2)
	for i := range 20 {
		key := fmt.Sprintf("/test/at-once-%d", i)
		var wait sync.WaitGroup
		for n := range 8 {
			wait.Go(func() {
				_, _ = nets[1].values.local.offer(t.Context(), key, []byte(strconv.Itoa(n)))
			})
		}
		wait.Wait()
		val, err := nets[1].values.local.get(t.Context(), key)
		if err != nil || string(val) != "7" {
			t.Fatalf("get() = %q, %v, want the best, 7", val, err)
		}
	}
}

// What a peer holds is told only while it is valid and not too old.
func TestReadRecordOld(t *testing.T) {
	nets := mesh(t, 2)
	const key = "/test/old"
	mustPut(t, nets[0], key, "5", 1, 0)
	holder := nets[1].values.local
	if val, err := holder.served(t.Context(), key, time.Now().Add(2*holder.age)); val != nil ||
		err != nil {
		t.Errorf("served() = %q, %v for a record that was not renewed, want none", val, err)
	}
	raw, err := holder.store.Get(t.Context(), dsKey(key))
	if err != nil {
		t.Fatal(err)
	}
	raw = bytes.Replace(raw, []byte("5"), []byte("x"), 1)
	if err := holder.store.Put(t.Context(), dsKey(key), raw); err != nil {
		t.Fatal(err)
	}
	if a, err := ask(t, nets[0], nets[1], recordRequest{Key: key}); err != nil || a.Record != nil {
		t.Errorf("the answer is %q, %v for an invalid record, want none", a.Record, err)
	}
}

func TestReadRecordRate(t *testing.T) {
	nets := mesh(t, 2)
	nets[1].values.requests.Allow(recordRate, nets[0].Self(), time.Now().Add(time.Hour)) // used up
	if _, err := ask(t, nets[0], nets[1], recordRequest{Key: "/test/rate"}); err == nil {
		t.Error("a request beyond the rate was answered")
	}
	mustPut(t, nets[1], "/test/rate", "5", 1, 0)
	if got, err := nets[0].values.holders.get(t.Context(), nets[1].Self(), "/test/rate",
		nil); err == nil || errors.Is(err, errSilent) {
		t.Errorf("get() = %q, %v from a peer that refuses, want an error at once", got, err)
	}
}

// liar serves answers that no honest peer sends.
func liar(t *testing.T, n *Net, a recordAnswer) {
	t.Helper()
	s := wire.Serve(n.Host, n.Names.Record(), recordLimits, nil,
		func(_ context.Context, c *wire.Conn) error {
			var q recordRequest
			return errors.Join(c.Recv(&q), c.Send(a))
		})
	t.Cleanup(s.Close)
}

// An invalid record is no answer, however it comes.
func TestReadRecordInvalid(t *testing.T) {
	nets := mesh(t, 4)
	const key = "/test/lies"
	for _, n := range nets[1:] {
		liar(t, n, recordAnswer{Record: []byte("no number")})
	}
	if got, err := nets[0].Values().Get(t.Context(), key); !errors.Is(err, ErrNotFound) {
		t.Errorf("Get() = %q, %v, want ErrNotFound: all records were invalid", got, err)
	}
	liar(t, nets[1], recordAnswer{Record: make([]byte, maxRecord+1)})
	liar(t, nets[2], recordAnswer{Same: true})
	liar(t, nets[3], recordAnswer{Same: true, Record: []byte("5")})
	for _, n := range nets[1:] {
		a, err := nets[0].values.holders.request(t.Context(), n.Self(), recordRequest{Key: key})
		if err == nil {
			_, err = a.record(nil)
		}
		if err == nil {
			t.Errorf("%d bytes are taken of an answer that no honest peer sends", len(a.Record))
		}
	}
}

// That a record is missing is not known while a member is silent that may hold it, and known when
// that has failed.
func TestReadRecordSilent(t *testing.T) {
	t.Parallel()
	nets := mesh(t, 4)
	silent := wire.Serve(nets[1].Host, nets[1].Names.Record(), recordLimits, nil,
		func(ctx context.Context, _ *wire.Conn) error {
			<-ctx.Done()
			return ctx.Err()
		})
	defer silent.Close()
	if got, err := nets[0].Values().Get(t.Context(), "/test/silent"); err == nil ||
		errors.Is(err, ErrNotFound) {
		t.Errorf("Get() = %q, %v although a member was silent, want another error", got, err)
	}
	mustPut(t, nets[2], "/test/there", "5", 2, 0)
	mustGet(t, nets[0], "/test/there", "5")
	if err := nets[1].Close(); err != nil {
		t.Fatal(err)
	}
	nets[0].values.holders.forget()
	if got, err := nets[0].Values().Get(t.Context(), "/test/silent"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Get() = %q, %v when the member has ended, want ErrNotFound", got, err)
	}
}

// An answer that repeats what the reader has is small.
func TestReadRecordBytes(t *testing.T) {
	nets := mesh(t, 2)
	const key = "/test/bytes"
	mustPut(t, nets[0], key, "5", 1, 0)
	before := nets[0].Traffic()
	for range 5 {
		mustGet(t, nets[0], key, "5")
		mustPut(t, nets[0], key, "5", 1, 0)
	}
	after := nets[0].Traffic()
	record := nets[0].Names.Record()
	if n := after[record].Received - before[record].Received; n == 0 || n > 10*100 {
		t.Errorf("10 answers of a few bytes took %d bytes, want at most 100 each", n)
	}
	dht := nets[0].Names.DHT()
	if n := after[dht].Sent - before[dht].Sent; n > 2000 {
		t.Errorf("%d bytes were sent over the DHT, want one lookup at most", n)
	}
}

func FuzzRecordRequest(f *testing.F) {
	add(f, recordRequest{Key: "/test/a"})
	add(f, recordRequest{Key: "/test/a", Known: digest([]byte("5"))})
	add(f, recordRequest{Key: "/test/a", Record: []byte("5")})
	f.Fuzz(func(t *testing.T, b []byte) {
		var q recordRequest
		if wire.Unmarshal(b, &q) != nil || q.check() != nil {
			return
		}
		if a := q.answer([]byte("5")); len(q.Record) > 0 && a.Same != (string(q.Record) == "5") {
			t.Fatalf("the answer to %v is %v", q, a)
		}
		if len(q.Key) > maxKey || len(q.Record) > maxRecord {
			t.Fatalf("a key of %d bytes, a record of %d", len(q.Key), len(q.Record))
		}
	})
}

func FuzzRecordAnswer(f *testing.F) {
	add(f, recordAnswer{})
	add(f, recordAnswer{Same: true})
	add(f, recordAnswer{Record: []byte("5")})
	f.Fuzz(func(t *testing.T, b []byte) {
		var a recordAnswer
		if wire.Unmarshal(b, &a) != nil {
			return
		}
		for _, known := range [][]byte{nil, []byte("4")} {
			val, err := a.record(known)
			switch {
			case err != nil && val != nil, len(val) > maxRecord, val != nil && len(val) == 0:
				t.Fatalf("record(%q) = %q, %v", known, val, err)
			case err == nil && a.Same && known == nil:
				t.Fatal("the same as nothing")
			}
		}
	})
}

func add(f *testing.F, v any) {
	b, err := wire.Marshal(v)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
}
