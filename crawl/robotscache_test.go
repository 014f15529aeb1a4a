package crawl

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"peerd/crawl/robots"
)

// Many hosts with large files take no more memory than robotsCachedBytes, and the rules used last
// stay. All rules of small files fit.
func TestRobotsCacheIsBounded(t *testing.T) {
	compiled := func(lines int) originRules {
		body := "User-agent: *\n" + strings.Repeat("Disallow:/a\n", lines)
		file := robots.Result{Status: http.StatusOK, Body: []byte(body)}
		return originRules{rules: file.Compile()}
	}
	c := newRobotsCache()
	origin := func(i int) string { return fmt.Sprintf("http://%d.test", i) }
	small, large := compiled(10), compiled(40_000)
	for i := range robotsCached {
		c.add(origin(i), small)
	}
	if c.Len() != robotsCached {
		t.Errorf("rules of %d small files are cached, want %d", c.Len(), robotsCached)
	}
	for i := range robotsCached {
		c.add(origin(i), large)
		c.add(origin(i), large)
	}
	total := int64(0)
	for _, o := range c.Keys() {
		r, _ := c.Peek(o)
		total += r.size()
	}
	if _, ok := c.Peek(origin(robotsCached - 1)); !ok || total > robotsCachedBytes {
		t.Errorf("rules of %d bytes are cached, with the last ones: %v; want at most %d and true",
			total, ok, robotsCachedBytes)
	}
	if total != c.size.Load() {
		t.Errorf("size of %d bytes, want %d", c.size.Load(), total)
	}
	for _, o := range c.Keys() {
		c.Remove(o)
	}
	if n := c.size.Load(); n != 0 {
		t.Errorf("size of an empty cache is %d, want 0", n)
	}
}

// Workers that add the rules of one origin at the same time count their size once.
func TestRobotsCacheCountsOnce(t *testing.T) {
	c := newOriginCache(4, 100, func(v int) int64 {
		runtime.Gosched() // let the others add theirs between two steps
		return int64(v)
	})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				c.put("http://same.test", 1)
			}
		})
	}
	wg.Wait()
	if n := c.size.Load(); n != 1 {
		t.Errorf("size of one value of 1 byte is %d", n)
	}
}
