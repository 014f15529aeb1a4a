package fetch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"peerd/store"
)

// TestSlowBodiesGiveWay has servers that send large bodies as slowly as they may, so that they hold
// all memory for large bodies. One that is received when they have begun does not wait for their
// end, but one that comes over a slow line without much delay is not ended for others.
func TestSlowBodiesGiveWay(t *testing.T) {
	def := DefaultConfig()
	for _, tt := range []struct {
		size, rate int
		ends       bool          // whether a slow body gives way
		most       time.Duration // until the fast body has arrived
	}{
		{int(def.MaxBody), int(def.SteadyRate), true, time.Minute},
		{int(def.MaxBody), 64 << 10, false, 3 * time.Minute},
		{5_900_000, 80_000, false, 2 * time.Minute},
	} {
		t.Run(fmt.Sprintf("%d at %d", tt.size, tt.rate), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := pipeFetcher(t, 0, func(c net.Conn, r *bufio.Reader) {
					hr, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					size, rate := tt.size, tt.rate
					if hr.Host == "fast" {
						size, rate = 1<<20, 1<<20
					}
					slowly(size, rate)(c)
				}, func(c *Config) { c.BodyMemory, c.MaxIdle = int64(2*tt.size)+2, 0 })
				get := func(host string) Result {
					res := f.Do(context.Background(), Request{Addr: pipeAddr,
						URL: store.URL("http://" + host + "/")})
					res.Release()
					return res
				}
				var slow sync.WaitGroup
				var ended atomic.Int64
				for i := range 2 {
					slow.Go(func() {
						res := get("slow" + strconv.Itoa(i))
						if errors.Is(res.Err, ErrSlow) && res.Outcome == store.OutcomeTimeout {
							ended.Add(1)
						} else if res.Outcome != store.OutcomeOK {
							t.Errorf("slow body: %v %v", res.Outcome, res.Err)
						}
					})
				}
				time.Sleep(25 * time.Second) // both have memory
				start := time.Now()
				if res := get("fast"); res.Outcome != store.OutcomeOK {
					t.Errorf("fast body: %v %v", res.Outcome, res.Err)
				}
				if took := time.Since(start); took > tt.most {
					t.Errorf("a body waited for slow ones for %v, want at most %v", took, tt.most)
				}
				slow.Wait()
				if n := ended.Load(); (n > 0) != tt.ends {
					t.Errorf("%d slow bodies gave way, want some: %v", n, tt.ends)
				}
				time.Sleep(time.Hour) // the servers must end
			})
		})
	}
}

// TestCodedBodyMemory checks that an encoded body needs no more memory for what is received than
// its Content-Length, so that two fit where one and a half of the largest ones would.
func TestCodedBodyMemory(t *testing.T) {
	page := html(1 << 20)
	sent := zip(page)
	s := newSite(t, "127.7.3.9", "http", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Length", strconv.Itoa(len(sent)))
		w.Write(sent)
	})
	f := newFetcher(t, func(c *Config) {
		c.MaxBody = 2 << 20
		c.BodyMemory = 2 * (c.MaxBody + int64(len(sent)) + 1)
	})
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		res := f.Do(ctx, Request{URL: s.url("http", "site.example", "/"), Addr: s.addr,
			KeepRaw: true})
		defer res.Release()
		if res.Outcome != store.OutcomeOK || string(res.Body) != string(page) {
			t.Errorf("%v, %d bytes, %v", res.Outcome, len(res.Body), res.Err)
		}
	}
}

// TestMemoryOfBuffers checks that a large body has reserved its memory also if its buffer was not
// made for it: it is one of an earlier body, or has the beginning of this one.
func TestMemoryOfBuffers(t *testing.T) {
	page := html(700_000)
	for _, cut := range []bool{false, true} {
		s := newSite(t, "127.7.3.10", "http", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"one"`)
			if cut && r.Header.Get("Range") == "" {
				w.Header().Set("Content-Length", strconv.Itoa(len(page)))
				w.Write(page[:len(page)-1000])
				return
			}
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(page))
		})
		f := newFetcher(t, func(c *Config) { c.BodyMemory = 4 << 20 })
		first := s.get(f, "/")
		if (first.Outcome == store.OutcomeOK) == cut {
			t.Fatal(first.Outcome, first.Err)
		}
		first.Release()
		for held := range int64(3) {
			res := s.get(f, "/")
			defer res.Release()
			if res.Outcome != store.OutcomeOK || !bytes.Equal(res.Body, page) {
				t.Errorf("%v, %d bytes, %v", res.Outcome, len(res.Body), res.Err)
			}
			if free := f.memory.max - (held+1)*int64(len(page)); f.memory.sem.TryAcquire(free) {
				f.memory.sem.Release(free)
				t.Errorf("no memory is reserved for body %d; the first was cut: %v", held, cut)
			}
			if cut {
				break
			}
		}
	}
}
