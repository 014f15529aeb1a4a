package crawl

import (
	"io"
	"strings"
	"testing"
	"time"

	"peerd/crawl/quota"
)

// The bytes of a body that is closed twice count once: the quota gives back what a request was
// charged in advance.
func TestCountedBodyClosedTwice(t *testing.T) {
	now := time.Unix(1e9, 0)
	q, err := quota.New(quota.Config{Bytes: 100}, now)
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := q.Borrow(now)
	if err != nil {
		t.Fatal(err)
	}
	b := &countedBody{ReadCloser: io.NopCloser(strings.NewReader(strings.Repeat("x", 10_000))),
		ticket: ticket}
	if _, err := io.Copy(io.Discard, b); err != nil {
		t.Fatal(err)
	}
	_ = b.Close()
	want := q.Wait(now)
	_ = b.Close()
	if got := q.Wait(now); got != want || want == 0 {
		t.Errorf("the wait for the next request is %v after the second Close, want %v", got, want)
	}
}
