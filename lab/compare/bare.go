package compare

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/html"
)

// tally is what a crawler reports about its crawl.
type tally struct {
	Pages  int64 `json:"pages"` // 200 text/html
	Failed int64 `json:"failed"`
}

// list is the queue of the loop and the set of all URLs that were ever in it.
type list struct {
	mu      sync.Mutex
	change  *sync.Cond
	seen    map[string]struct{}
	queue   []string
	working int
}

func newList() *list {
	l := &list{seen: map[string]struct{}{}}
	l.change = sync.NewCond(&l.mu)
	return l
}

// add queues the URLs that are new.
func (l *list) add(urls []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, u := range urls {
		if _, ok := l.seen[u]; !ok {
			l.seen[u] = struct{}{}
			l.queue = append(l.queue, u)
		}
	}
	l.change.Broadcast()
}

// next returns the next URL, or false when the queue is empty and no worker is busy.
func (l *list) next() (string, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 {
		if l.working == 0 {
			return "", false
		}
		l.change.Wait()
	}
	u := l.queue[0]
	l.queue = l.queue[1:]
	l.working++
	return u, true
}

// done marks the URL of the last call of next as finished.
func (l *list) done() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.working--; l.working == 0 {
		l.change.Broadcast()
	}
}

// crawlBare crawls with the bare loop.
func crawlBare(ctx context.Context, o driverOptions) (tally, error) {
	r, err := newRule(o)
	if err != nil {
		return tally{}, err
	}
	client := &http.Client{
		Transport: transport(o.Parallel),
		Timeout:   30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	defer client.CloseIdleConnections()
	l := newList()
	l.add(o.Seeds)
	var mu sync.Mutex
	var sum tally
	var wg sync.WaitGroup
	for range o.Parallel {
		wg.Go(func() {
			t := work(ctx, client, o, r, l)
			mu.Lock()
			defer mu.Unlock()
			sum.Pages += t.Pages
			sum.Failed += t.Failed
		})
	}
	wg.Wait()
	return sum, ctx.Err()
}

// transport returns a transport that keeps one idle connection per worker. The default of
// net/http, two per host, would close most of them after each request.
func transport(n int) *http.Transport {
	return &http.Transport{MaxIdleConnsPerHost: n, MaxIdleConns: 4 * n, DisableCompression: true,
		ReadBufferSize: 64 << 10}
}

// work runs one worker. After ctx has ended it empties the list without requests.
func work(ctx context.Context, client *http.Client, o driverOptions, r rule, l *list) tally {
	var t tally
	var body bytes.Buffer
	var found []string
	for {
		raw, ok := l.next()
		if !ok {
			return t
		}
		if u, err := url.Parse(raw); err == nil && ctx.Err() == nil {
			var page bool
			page, found, err = get(ctx, client, o, r, u, &body, found[:0])
			if page {
				t.Pages++
			}
			if err != nil {
				t.Failed++
			}
			l.add(found)
		}
		l.done()
	}
}

// get fetches u into body and appends its links to found. page reports whether the answer is a
// page.
func get(
	ctx context.Context, client *http.Client, o driverOptions, r rule, u *url.URL,
	body *bytes.Buffer, found []string,
) (page bool, _ []string, err error) {
	req := (&http.Request{Method: http.MethodGet, URL: u, Host: u.Host,
		Header: http.Header{"User-Agent": {o.Agent}}}).WithContext(ctx)
	res, err := client.Do(req)
	if err != nil {
		return false, found, err
	}
	defer res.Body.Close()
	body.Reset()
	if _, err := body.ReadFrom(io.LimitReader(res.Body, int64(o.MaxBody))); err != nil {
		return false, found, err
	}
	if to := res.Header.Get("Location"); to != "" && res.StatusCode/100 == 3 {
		if s := r.join(u, to); s != "" {
			found = append(found, s)
		}
	}
	if res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"),
		"text/html") {
		return false, found, nil
	}
	return true, r.links(u, body.Bytes(), found), nil
}

// links appends the links of a page.
func (r rule) links(base *url.URL, page []byte, found []string) []string {
	z := html.NewTokenizer(bytes.NewReader(page))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return found
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			want := linkAttribute(string(name))
			isBase := len(name) == 4 && want == "href" && name[0] == 'b'
			for more && want != "" {
				var key, val []byte
				key, val, more = z.TagAttr()
				if string(key) != want {
					continue
				}
				if isBase {
					if b, err := base.Parse(string(val)); err == nil {
						base = b
					}
				} else if s := r.join(base, string(val)); s != "" {
					found = append(found, s)
				}
			}
		}
	}
}
