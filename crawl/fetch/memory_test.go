package fetch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/andybalholm/brotli"

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

// TestMemoryOfBeginning checks that a large body has reserved its memory also if its buffer is that
// of an earlier response, which has its beginning.
func TestMemoryOfBeginning(t *testing.T) {
	page := html(700_000)
	s := newSite(t, "127.7.3.10", "http", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"one"`)
		if r.Header.Get("Range") == "" {
			w.Header().Set("Content-Length", strconv.Itoa(len(page)))
			w.Write(page[:len(page)-1000])
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(page))
	})
	f := newFetcher(t, func(c *Config) { c.BodyMemory = 4 << 20 })
	if res := s.get(f, "/"); res.Outcome != store.OutcomeReset {
		t.Fatal(res.Outcome, res.Err)
	}
	res := s.get(f, "/")
	defer res.Release()
	if res.Outcome != store.OutcomeOK || !bytes.Equal(res.Body, page) {
		t.Errorf("%v, %d bytes, %v", res.Outcome, len(res.Body), res.Err)
	}
	if free := f.memory.max - int64(len(page)); f.memory.sem.TryAcquire(free) {
		t.Error("no memory is reserved")
	}
}

// TestDecoderMemory has servers that send the beginnings of bodies for which decoders need their
// largest windows. The memory of all together is limited, and a short page does not wait for them.
func TestDecoderMemory(t *testing.T) {
	// A block of 16 MiB without compression: RFC 7932, sections 9.1 and 9.2.
	wide := "\xcf\xff\xff\xff" + strings.Repeat("x", 200_000)
	page := packers["br"](html(20_000))
	synctest.Test(t, func(t *testing.T) {
		f := pipeFetcher(t, 0, func(c net.Conn, r *bufio.Reader) {
			hr, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			size, body := 1<<20, wide
			if hr.Host == "page" {
				size, body = len(page), string(page)
			}
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n"+
				"Content-Length: %d\r\n\r\n%s", size, body)
			io.Copy(io.Discard, c)
		}, func(c *Config) { c.BodyMemory, c.MaxIdle = 48<<20, 0 })
		ctx, cancel := context.WithCancel(t.Context())
		get := func(host string) Result {
			return f.Do(ctx, Request{URL: store.URL("http://" + host + "/"), Addr: pipeAddr})
		}
		before := heap()
		var stalled sync.WaitGroup
		for i := range 10 {
			stalled.Go(func() { get("wide" + strconv.Itoa(i)) })
		}
		synctest.Wait()
		if grown := heap() - before; grown > 70<<20 {
			t.Errorf("10 bodies need %d MiB, want at most 64", grown>>20)
		}
		start := time.Now()
		res := get("page")
		if took := time.Since(start); res.Outcome != store.OutcomeOK || took > time.Second {
			t.Errorf("a short page: %v %v after %v", res.Outcome, res.Err, took)
		}
		res.Release()
		cancel()
		stalled.Wait()
	})
}

// TestBrotliWindow checks the windows of data by our encoder, and that a decoder keeps no large
// one.
func TestBrotliWindow(t *testing.T) {
	for bits := 10; bits <= 24; bits++ {
		var b bytes.Buffer
		w := brotli.NewWriterOptions(&b, brotli.WriterOptions{LGWin: bits})
		w.Write(html(1000))
		w.Close()
		want := int64(1) << max(bits, 18) // smaller ones are not used
		if got := brotliWindow(b.Bytes()); got != want {
			t.Errorf("%d bits: window of %d bytes, want %d", bits, got, want)
		}
	}
	before := heap()
	d := new(brotliDecoder)
	for range 2 {
		src := bufio.NewReader(strings.NewReader("\xcf\xff\xff\xff" + strings.Repeat("x", 1000)))
		if err := d.start(src); err != nil {
			t.Fatal(err)
		}
		if n, err := d.Read(make([]byte, 100)); n != 100 {
			t.Fatal(n, err)
		}
		d.release()
	}
	if grown := heap() - before; grown > 8<<20 {
		t.Errorf("a decoder keeps %d MiB", grown>>20)
	}
	runtime.KeepAlive(d)
}

// heap returns the memory in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
