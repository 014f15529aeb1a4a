//go:build integration

package hostile

import (
	"strings"
	"testing"
)

// The bombs of the cases are so large that a client that reads one completely exceeds the bound.
func TestBombsWeight(t *testing.T) {
	for _, name := range []string{"bomb-gzip", "bomb-brotli", "bomb-zstd"} {
		w := serve(t, name)
		n := len(raw(t, w, name+"."+Domain+"/bad/1", 1<<30))
		if n < bombWire*9/10 || n > bombWire*11/10 {
			t.Errorf("%s: %d bytes, want about %d", name, n, bombWire)
		}
		ended(t, w, 0)
		if faults := w.Judge(name, 0); !strings.Contains(strings.Join(faults, "\n"),
			"bytes were taken") {
			t.Errorf("%s: faults %q", name, faults)
		}
	}
}
