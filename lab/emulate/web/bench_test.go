package web

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// BenchmarkRender is the cost of making one page.
func BenchmarkRender(b *testing.B) {
	w, err := New(testConfig(24, 3000, 7))
	if err != nil {
		b.Fatal(err)
	}
	buf, i := make([]byte, 0, 1<<20), 0
	for b.Loop() {
		s := w.sites[i%len(w.sites)]
		buf = w.render(buf[:0], s, i%len(s.pages))
		i++
	}
}

// BenchmarkHandler is the cost of one request without the network.
func BenchmarkHandler(b *testing.B) {
	w, err := New(testConfig(24, 3000, 7))
	if err != nil {
		b.Fatal(err)
	}
	req := httptest.NewRequest(http.MethodGet, w.Seed(), nil)
	for b.Loop() {
		w.serveSite(httptest.NewRecorder(), req)
	}
}

// BenchmarkServe is the cost of one request with loopback and a client.
func BenchmarkServe(b *testing.B) {
	w := serve(b, testConfig(24, 3000, 7))
	c := client(b, w)
	for b.Loop() {
		get(b, c, w.Seed())
	}
}
