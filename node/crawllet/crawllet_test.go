package crawllet

import (
	"strings"
	"testing"

	"peerd/crawl/crawllet/record"
)

func TestLines(t *testing.T) {
	var b strings.Builder
	if err := NewLines(&b).Write(record.Record{URL: "http://a.example/?a&b", Status: 200,
		Digest: []byte{0xab}, Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	want := `{"url":"http://a.example/?a&b","status":200,"body":"eA==","digest":"ab"}` + "\n"
	if b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func TestPeerKeys(t *testing.T) {
	keys, err := peerKeys([]string{"12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA"})
	if err != nil || len(keys) != 1 || len(keys[0]) != 32 {
		t.Errorf("peerKeys() = %x, %v", keys, err)
	}
	if keys, err := peerKeys(nil); keys != nil || err != nil {
		t.Errorf("none: %x, %v", keys, err)
	}
	for _, id := range []string{"", "x", "QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N"} {
		if _, err := peerKeys([]string{id}); err == nil {
			t.Errorf("%q: no error", id)
		}
	}
}
