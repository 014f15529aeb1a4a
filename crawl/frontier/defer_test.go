package frontier_test

import (
	"testing"

	"peerd/crawl/frontier"
	"peerd/store"
)

// Deferred entries come after all others of their host, also after those that are pushed
// later, and each once. No clock moves.
func TestDefer(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		const host, n = "a.example", 200 // more than one read
		w.add(host, addr(1, 1), n)
		pass(gap)
		deferJob := func(j frontier.Job) {
			if err := w.db.Update(func(tx *store.Tx) error {
				return tx.Defer(host, j.Entry)
			}); err != nil {
				t.Fatal(err)
			}
			w.Defer(j)
		}
		var order []store.URL
		for range n {
			j := w.want(host, 0)
			if j.Entry.Deferred() {
				t.Fatalf("%s is deferred", j.Entry.URL)
			}
			order = append(order, j.Entry.URL)
			deferJob(j)
		}
		w.push(host, n, 1)
		w.wantStats(1, n+1, 0)
		j, _ := w.next()
		if j.Entry.URL != page(host, n) {
			t.Errorf("the next URL is %s, want the one that was pushed last", j.Entry.URL)
		}
		w.finish(j)
		for i, u := range order {
			j, _ := w.next()
			if j.Entry.URL != u || !j.Entry.Deferred() {
				t.Fatalf("deferred URL %d is %s, want %s", i, j.Entry.URL, u)
			}
			w.finish(j)
		}
		w.wantStats(1, 0, 0)
	})
}
