//go:build integration

package replay

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"peerd/store/warc"
)

// TestBrowser shows a hostile page in a browser. Its script must not run, and nothing may be
// requested from another server; the image of the page is shown.
func TestBrowser(t *testing.T) {
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("browser tests are skipped: no chromium found; on Debian: apt-get install chromium")
	}
	var mu sync.Mutex
	var outside []string
	out := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		outside = append(outside, r.URL.Path)
	}))
	t.Cleanup(out.Close)
	page := strings.ReplaceAll(`<base href="OUT/"><meta http-equiv=refresh content="0;url=OUT/meta">
<body onload="document.title='ran';fetch('OUT/onload')"><script>document.title='ran'</script>
<script src=OUT/s.js></script><img src=OUT/i.png onerror="document.title='ran'">
<iframe src="javascript:document.title='ran'"></iframe><iframe src=OUT/frame></iframe>
<style>@import "OUT/css";@\69mport "OUT/escaped";p{background:u\72l(OUT/escaped2)}</style>
<svg><image href=OUT/svg /></svg><link rel=preload as=image href=OUT/pre><p>shown`, "OUT", out.URL)
	base := serve(t, func(a *warc.Archive) {
		put(t, a, 0, "http://a.example/", htmlHead, page)
	})
	for _, modifier := range []string{"", "id_"} {
		cmd := exec.CommandContext(t.Context(), program, "--headless", "--no-sandbox",
			"--disable-gpu", "--user-data-dir="+t.TempDir(), "--dump-dom",
			base+"/web/20260102030405"+modifier+"/http://a.example/")
		dom, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(dom), "shown") || strings.Contains(string(dom), "<title>ran") {
			t.Errorf("modifier %q:\n%s", modifier, dom)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(outside) > 0 {
		t.Errorf("requests left the replay: %q", outside)
	}
}
