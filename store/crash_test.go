package store

import (
	"fmt"
	"testing"
)

// crashBatch is the number of URLs in each crashStep.
const crashBatch = 20

// crashStep is transaction n of a store that will crash. It queues crashBatch URLs at a
// host, adds a pending URL, stores a page with a value in the value log, and gives up the
// first entry of the queue.
func crashStep(tx *Tx, n int) error {
	if n == 0 {
		tx.PutHost(Host{Name: host})
	} else {
		e, err := tx.Peek(host)
		if err != nil {
			return err
		}
		if err := tx.Remove(host, e); err != nil {
			return err
		}
		if err := tx.GiveUp(GivenUp{URL: e.URL, Error: "no answer"}); err != nil {
			return err
		}
	}
	for i := range crashBatch {
		fresh, err := tx.Push(host, Entry{URL: crashURL(n, i), Depth: 0}, 0)
		if err != nil || !fresh {
			return fmt.Errorf("push %d/%d: new %v, %w", n, i, fresh, err)
		}
	}
	if _, err := tx.AddPending(
		Pending{URL: URL(fmt.Sprintf("http://b.example/%d", n))}); err != nil {
		return err
	}
	p := bigPage(100)
	p.URL = crashURL(n, 0)
	tx.Count(Counters{Pages: 1})
	return tx.PutPage(p)
}

func crashURL(n, i int) URL { return URL(fmt.Sprintf("http://%s/%d/%d", host, n, i)) }

// checkSteps checks that the first n crashSteps are stored, each of them completely.
func checkSteps(t *testing.T, d *DB, n int) {
	t.Helper()
	if n == 0 {
		return
	}
	view(t, d, func(tx *Tx) error {
		h, err := tx.Host(host)
		if err != nil {
			return err
		}
		if want := int64(n*crashBatch - (n - 1)); h.Queued != want ||
			h.Known != int64(n*crashBatch) {
			t.Errorf("host is %+v, want %d queued", h, want)
		}
		first, i := n-1, 0 // n-1 entries have been removed
		err = tx.Queue(host, nil, func(e Entry) (bool, error) {
			if want := crashURL((first+i)/crashBatch, (first+i)%crashBatch); e.URL != want {
				t.Errorf("entry %d is %s, want %s", i, e.URL, want)
				return false, nil
			}
			i++
			return true, nil
		})
		if err != nil {
			return err
		}
		if int64(i) != h.Queued {
			t.Errorf("queue has %d entries, want %d as counted", i, h.Queued)
		}
		givenUp := 0
		if err := tx.EachGivenUp(host, nil, func(GivenUp) (bool, error) {
			givenUp++
			return true, nil
		}); err != nil {
			return err
		}
		if givenUp != n-1 {
			t.Errorf("%d URLs were given up, want %d", givenUp, n-1)
		}
		pages, seen := 0, 0
		if err := tx.Pages(func(p Page) error {
			pages += len(p.Links) / 100
			return nil
		}); err != nil {
			return err
		}
		if err := tx.SeenDigests(host, nil, func(Digest) (bool, error) {
			seen++
			return true, nil
		}); err != nil {
			return err
		}
		pending, err := tx.PendingHosts()
		if err != nil {
			return err
		}
		if pages != n || seen != n*crashBatch || len(pending) != 1 || pending[0].Count != n {
			t.Errorf("found %d pages, %d seen URLs, pending %+v, want those of %d transactions",
				pages, seen, pending, n)
		}
		return nil
	})
}
