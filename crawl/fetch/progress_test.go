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
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"peerd/store"
)

// slowly sends a body of size bytes at a rate in bytes per second.
func slowly(size, rate int) func(net.Conn) {
	return func(c net.Conn) {
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"+
			"Content-Length: %d\r\n\r\n", size)
		for left := size; left > 0; left -= rate {
			if _, err := io.WriteString(c, strings.Repeat("x", min(left, rate))); err != nil {
				return
			}
			time.Sleep(time.Second)
		}
	}
}

// TestSlowBodies checks that a body may take as long as it makes progress, and no longer.
func TestSlowBodies(t *testing.T) {
	def := DefaultConfig()
	for _, tt := range []struct {
		name       string
		size, rate int
		want       store.Outcome
		most       time.Duration
	}{
		{"large page over a slow line", 5_900_000, 80_000, store.OutcomeOK, 75 * time.Second},
		{"largest page over the slowest line", int(def.MaxBody), int(def.SteadyRate),
			store.OutcomeOK, 520 * time.Second},
		{"slow drip", int(def.MaxBody), 1000, store.OutcomeTimeout, 80 * time.Second},
		{"half the rate", int(def.MaxBody), int(def.SteadyRate) / 2, store.OutcomeTimeout,
			140 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := pipeFetcher(t, 0, serveAll(slowly(tt.size, tt.rate)), nil)
				defer f.Close()
				start := time.Now()
				res := pipeGet(f)
				if took := time.Since(start); res.Outcome != tt.want || took > tt.most {
					t.Errorf("%v after %v, want %v within %v: %v", res.Outcome, took, tt.want,
						tt.most, res.Err)
				}
				if res.Outcome == store.OutcomeTimeout && !errors.Is(res.Err, ErrSlow) {
					t.Errorf("error %v, want ErrSlow", res.Err)
				}
				res.Release()
				time.Sleep(time.Hour) // the server must end
			})
		})
	}
}

// TestBodyMemory fetches large bodies at once. All arrive, but never more at a time than the memory
// allows; small ones do not wait, and waiting does not count as slowness of the server.
func TestBodyMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := pipeFetcher(t, 0, func(c net.Conn, r *bufio.Reader) {
			hr, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			size := 1 << 20
			if hr.Host == "small" {
				size = 1000
			}
			slowly(size, size)(c)
		}, func(c *Config) { c.BodyMemory, c.MaxIdle = 2<<20+2, 0 })
		var mu sync.Mutex
		using, most := 0, 0
		var wg sync.WaitGroup
		get := func(host string) Result {
			return f.Do(context.Background(), Request{URL: store.URL("http://" + host + "/"),
				Addr: pipeAddr})
		}
		for i := range 6 {
			wg.Go(func() {
				res := get(fmt.Sprintf("large%d", i))
				if res.Outcome != store.OutcomeOK || len(res.Body) != 1<<20 {
					t.Errorf("%v %d bytes %v", res.Outcome, len(res.Body), res.Err)
				}
				mu.Lock()
				using++
				most = max(most, using)
				mu.Unlock()
				time.Sleep(time.Minute) // in use
				mu.Lock()
				using--
				mu.Unlock()
				res.Release()
				res.Release()
			})
		}
		time.Sleep(10 * time.Second)
		if res := get("small"); res.Outcome != store.OutcomeOK || len(res.Body) != 1000 {
			t.Errorf("small body: %v %d bytes %v", res.Outcome, len(res.Body), res.Err)
		}
		wg.Wait()
		if most != 2 {
			t.Errorf("%d bodies in use at once, want 2", most)
		}
		// A caller that gives up does not keep the memory from others.
		hold := get("large")
		other := get("large")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		late := f.Do(ctx, Request{URL: "http://large/", Addr: pipeAddr})
		if late.Outcome != store.OutcomeTimeout {
			t.Errorf("without memory: %v %v, want timeout", late.Outcome, late.Err)
		}
		hold.Release()
		other.Release()
		if res := get("large"); res.Outcome != store.OutcomeOK {
			t.Errorf("after a release: %v %v", res.Outcome, res.Err)
		}
		time.Sleep(time.Hour) // the servers must end
	})
}

// TestSniffing checks which bodies are wanted by their first bytes.
func TestSniffing(t *testing.T) {
	pdf := "%PDF-1.4\n" + strings.Repeat("stream", 10_000)
	binary := "\x00\x01\x02\x03" + strings.Repeat("\x80", 200_000)
	page := "<!DOCTYPE html><title>x</title>" + strings.Repeat("<p>x", 5000)
	for _, tt := range []struct {
		name, sent, coding, body string
		want                     store.Outcome
	}{
		{"page", "text/html", "", page, store.OutcomeOK},
		{"page without a type", "", "", page, store.OutcomeOK},
		{"page of an unknown type", "", "gzip", page, store.OutcomeOK},
		{"page after a byte order mark", "", "", "\xef\xbb\xbf" + page, store.OutcomeOK},
		{"page after spaces", "", "", "\n\n  " + page, store.OutcomeOK},
		{"empty", "", "", "", store.OutcomeOK},
		{"short page", "", "", "<html>", store.OutcomeOK},
		{"PDF called HTML", "text/html; charset=utf-8", "", pdf, store.OutcomeNotHTML},
		{"PDF called HTML, coded", "text/html", "gzip", pdf, store.OutcomeNotHTML},
		{"image called HTML", "Text/HTML", "", "\x89PNG\r\n\x1a\n" + binary, store.OutcomeNotHTML},
		{"archive called HTML", "text/html", "", "PK\x03\x04" + binary, store.OutcomeNotHTML},
		{"binary without a type", "", "", binary, store.OutcomeNotHTML},
		{"text without a type", "", "", "just text", store.OutcomeNotHTML},
		{"text called HTML", "text/html", "", "just text", store.OutcomeOK},
		{"UTF-16 without a mark", "text/html; charset=utf-16le", "", "<\x00p\x00>\x00", store.OutcomeOK},
		{"wrong type", "application/pdf", "", page, store.OutcomeNotHTML},
	} {
		for _, raw := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.name, raw), func(t *testing.T) {
				sent := []byte(tt.body)
				if tt.coding != "" {
					sent = packers[tt.coding](sent)
				}
				s := newSite(t, "127.7.3.9", "http", func(w http.ResponseWriter, _ *http.Request) {
					w.Header()["Content-Type"] = nil
					if tt.sent != "" {
						w.Header().Set("Content-Type", tt.sent)
					}
					if tt.coding != "" {
						w.Header().Set("Content-Encoding", tt.coding)
					}
					w.Write(sent)
				})
				f := newFetcher(t, func(c *Config) {
					c.MaxRaw = map[string]int64{"*/*": 1 << 20}
				})
				res := f.Do(t.Context(), Request{URL: s.url("http", "site.example", "/"),
					Addr: s.addr, HTML: true, KeepRaw: raw})
				if res.Outcome != tt.want || res.Err != nil || res.ContentType != tt.sent {
					t.Errorf("%v %q %v, want %v", res.Outcome, res.ContentType, res.Err, tt.want)
				}
				if wanted := tt.want == store.OutcomeOK; wanted != (string(res.Body) == tt.body) &&
					tt.body != "" {
					t.Errorf("%d bytes of body, wanted %v", len(res.Body), wanted)
				}
				if raw && (!bytes.Equal(res.Raw, sent) || res.RawCut != "") {
					t.Errorf("%d bytes of %d kept, cut by %q", len(res.Raw), len(sent), res.RawCut)
				}
				if !raw && res.Bytes > 2*drainLimit+8<<10 {
					t.Errorf("read %d bytes of a body that is not wanted", res.Bytes)
				}
			})
		}
	}
}

// TestMaxRawOfTypes checks which limit applies to a Content-Type field.
func TestMaxRawOfTypes(t *testing.T) {
	all := Config{MaxRaw: map[string]int64{"image/*": 5, "image/png": 7, "*/*": 1}}
	for kind, want := range map[string]int64{
		"image/png": 7, "Image/PNG; q=\"x": 7, "image/gif": 5, "": 1, "text/plain": 1,
	} {
		if got := all.maxRaw(kind); got != want {
			t.Errorf("%q: %d, want %d", kind, got, want)
		}
	}
	some := Config{MaxRaw: map[string]int64{"text/plain": 0}}
	if some.maxRaw("text/plain; charset=utf-8") != 0 || some.maxRaw("a/b") != drainLimit {
		t.Error("a limit of one type applies to others, or not to itself")
	}
}

// TestMaxRaw checks the limit on bodies that are kept for an archive only.
func TestMaxRaw(t *testing.T) {
	s := newSite(t, "127.7.3.8", "http", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "image/png")
		io.WriteString(w, strings.Repeat("x", 300_000))
	})
	for _, limit := range []int64{0, 100, 299_999, 300_000, 1 << 40} {
		f := newFetcher(t, func(c *Config) {
			c.MaxRaw = map[string]int64{"image/png": limit, "image/*": 1, "*/*": 1}
		})
		res := f.Do(t.Context(), Request{URL: s.url("http", "site.example", "/"), Addr: s.addr,
			KeepRaw: true, HTML: true})
		if int64(len(res.Raw)) != min(limit, 300_000) ||
			(res.RawCut == "length") != (limit < 300_000) ||
			res.Outcome != store.OutcomeNotHTML {
			t.Errorf("limit %d: kept %d, cut by %q, %v", limit, len(res.Raw), res.RawCut, res.Err)
		}
		res.Release()
	}
}
