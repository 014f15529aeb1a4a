package fetch

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"testing"
	"time"

	"peerd/store"
)

// TestPartial cuts a body and fetches it again. The rest is requested if that is possible, and the
// body is the same in any case.
func TestPartial(t *testing.T) {
	page := html(500_000)
	const tag = `"one"`
	for _, tt := range []struct {
		name   string
		head   map[string]string // of the first response
		req    Request
		second func(w http.ResponseWriter, r *http.Request) // nil: as http.ServeContent does
		cutAt  int
		ranged bool
		want   store.Outcome
	}{
		{name: "strong tag", head: map[string]string{"ETag": tag}, ranged: true},
		{name: "old", ranged: true, head: map[string]string{
			"Last-Modified": "Mon, 02 Jan 2006 15:04:05 GMT"}},
		{name: "weak tag", head: map[string]string{"ETag": `W/"one"`}},
		{name: "new", head: map[string]string{
			"Last-Modified": time.Now().UTC().Format(http.TimeFormat)}},
		{name: "no validator"},
		{name: "little", head: map[string]string{"ETag": tag}, cutAt: 10_000},
		{name: "no ranges", head: map[string]string{"ETag": tag, "Accept-Ranges": "none"}},
		{name: "archive", head: map[string]string{"ETag": tag}, req: Request{KeepRaw: true}},
		{name: "whole body", head: map[string]string{"ETag": tag}, ranged: true,
			second: func(w http.ResponseWriter, _ *http.Request) { w.Write(page) }},
		{name: "other range", head: map[string]string{"ETag": tag}, ranged: true,
			want: store.OutcomeReset, second: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Range", "bytes 0-499999/500000")
				w.WriteHeader(http.StatusPartialContent)
				w.Write(page)
			}},
		{name: "other tag", head: map[string]string{"ETag": tag}, ranged: true,
			want: store.OutcomeReset, second: func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("ETag", `"two"`)
				r.Header.Del("If-Range")
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(page))
			}},
		{name: "unknown length", head: map[string]string{"ETag": tag}, ranged: true,
			want: store.OutcomeReset, second: func(w http.ResponseWriter, r *http.Request) {
				var first int
				fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &first)
				w.Header().Set("Content-Range",
					fmt.Sprintf("bytes %d-%d/%d", first, len(page)-1, len(page)))
				w.WriteHeader(http.StatusPartialContent)
				w.(http.Flusher).Flush() // chunks, which end early
				w.Write(page[first : first+10])
			}},
		{name: "not satisfiable", head: map[string]string{"ETag": tag}, ranged: true,
			want: store.OutcomeReset, second: func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.cutAt == 0 {
				tt.cutAt = 200_000
			}
			if tt.want == store.OutcomeNone {
				tt.want = store.OutcomeOK
			}
			tries, ranged := 0, false
			s := newSite(t, "127.7.3.7", "http", func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/html; charset=utf-8")
				for name, value := range tt.head {
					w.Header().Set(name, value)
				}
				switch tries++; {
				case tries == 1:
					w.Header().Set("Content-Length", fmt.Sprint(len(page)))
					w.Write(page[:tt.cutAt])
					w.(http.Flusher).Flush()
					panic(http.ErrAbortHandler)
				case tries == 2 && r.Header.Get("Range") != "":
					ranged = true
					if tt.second != nil {
						tt.second(w, r)
						return
					}
					w.Header().Del("Content-Type") // it may be left out (RFC 9110, section 15.3.7)
				}
				modified, _ := http.ParseTime(tt.head["Last-Modified"])
				http.ServeContent(w, r, "", modified, bytes.NewReader(page))
			})
			f := newFetcher(t, nil)
			req := tt.req
			req.URL, req.Addr = s.url("http", "site.example", "/"), s.addr
			req.HTML = true
			res := f.Do(t.Context(), req)
			if res.Outcome != store.OutcomeReset || res.Body != nil {
				t.Fatal(res.Outcome, len(res.Body), res.Err)
			}
			received := res.Bytes
			res = f.Do(t.Context(), req)
			if res.Outcome != tt.want || ranged != tt.ranged {
				t.Fatalf("%v, rest requested: %v; want %v, %v; %v", res.Outcome, ranged, tt.want,
					tt.ranged, res.Err)
			}
			if res.Outcome != store.OutcomeOK {
				res = f.Do(t.Context(), req) // asks for the whole body
			}
			if !bytes.Equal(res.Body, page) || res.Status != 200 ||
				res.ContentType != "text/html; charset=utf-8" {
				t.Errorf("%d %q, %d bytes of %d",
					res.Status, res.ContentType, len(res.Body), len(page))
			}
			if rest := tt.ranged && tt.second == nil; rest &&
				res.Bytes != int64(len(page))-received {
				t.Errorf("received %d and %d bytes of %d", received, res.Bytes, len(page))
			}
			if f.partials.size != 0 || f.partials.lru.Len() != 0 {
				t.Errorf("%d bytes are still kept", f.partials.size)
			}
		})
	}
}

// TestPartialSurvivesConnect keeps what was received while the server cannot be reached.
func TestPartialSurvivesConnect(t *testing.T) {
	p := newPartials(1000)
	at := func(i int) store.URL { return store.URL(fmt.Sprintf("http://site.example/%d", i)) }
	for i := range 5 {
		p.put(at(i), &partial{data: make([]byte, 300)})
	}
	p.put(at(9), &partial{data: make([]byte, 1001)})
	p.put(at(4), &partial{data: make([]byte, 400)})
	p.put(at(5), nil)
	if p.size != 1000 || p.take(at(1)) != nil || p.take(at(9)) != nil || p.take(at(2)) == nil ||
		p.size != 700 {
		t.Errorf("%d bytes kept, want 700", p.size)
	}
	f := newFetcher(t, nil)
	dead := Request{URL: "http://site.example:1/", Addr: loopback.Addr()}
	dead.URL = "http://site.example:9999/"
	f.partials.put(dead.URL, &partial{data: make([]byte, 100), validator: `"x"`})
	if res := f.Do(t.Context(), dead); res.Outcome != store.OutcomeConnect {
		t.Fatal(res.Outcome, res.Err)
	}
	if f.partials.take(dead.URL) == nil {
		t.Error("the beginning of a body was lost although no request was sent")
	}
}

func FuzzContentRange(f *testing.F) {
	f.Add("bytes 5-9/10", 206)
	f.Add("bytes 5-9/*", 206)
	f.Add("bytes 5-99999999999999999999/3", 206)
	f.Add("bytes 05-9/10", 206)
	f.Add("bytes +5-9/10", 206)
	begins := regexp.MustCompile(`^bytes 0*5-`)
	f.Fuzz(func(t *testing.T, field string, status int) {
		p := &partial{data: make([]byte, 5), header: http.Header{}}
		resp := &http.Response{StatusCode: status, Header: http.Header{"Content-Range": {field}},
			Body: io.NopCloser(nil)}
		ok, err := p.join(resp)
		if ok && (err != nil || !begins.MatchString(field) || resp.StatusCode != 200) {
			t.Errorf("%d %q: %v, %v", status, field, ok, err)
		}
	})
}
