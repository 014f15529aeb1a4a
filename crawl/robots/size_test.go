package robots_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"peerd/crawl/robots"
)

// Size is about the memory of rules, of files of any kind.
func TestSize(t *testing.T) {
	const files = 2
	for _, line := range []string{
		"Disallow:/a\n", "User-agent:a%d\nAllow:/\n", "Allow:*a*a*a*a*a*a*a\n", "Sitemap:a\n",
		"Disallow:/\xff\xff\xff\xff\n",
	} {
		body := []byte("User-agent: *\n")
		for i := 0; len(body) < robots.MaxBody-64; i++ {
			body = append(body, strings.ReplaceAll(line, "%d", fmt.Sprint(i))...)
		}
		all := make([]*robots.Rules, files)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.GC() // also of what a pool had
		runtime.ReadMemStats(&before)
		for i := range all {
			all[i] = robots.Result{Status: http.StatusOK, Body: body}.Compile()
		}
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&after)
		took := (int(after.HeapAlloc) - int(before.HeapAlloc)) / files
		if size := all[0].Size(); size < took/2 || size > 4*took {
			t.Errorf("%q: the size is %d bytes, memory grew by %d", line, size, took)
		}
		runtime.KeepAlive(all)
	}
}
