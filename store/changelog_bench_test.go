package store

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkChangeLog commits pages with forty links to their own host, of which ten are
// new, and ten links to other hosts, alternately with and without a change log. It reports
// the ratio of the times with and without a log, and the size of the log per page.
func BenchmarkChangeLog(b *testing.B) {
	var took [2]time.Duration
	var stores [2]*DB
	for i := range stores {
		d := open(b, b.TempDir(), small)
		update(b, d, func(tx *Tx) error {
			tx.PutHost(Host{Name: "a.example", Subnet: netA})
			return nil
		})
		push(b, d, "a.example", 0)
		if i == 1 {
			if err := d.StartLog(netA, 1, LogPos{}); err != nil {
				b.Fatal(err)
			}
		}
		stores[i] = d
	}
	const turn = 25
	n, bytes := 0, 0
	for b.Loop() {
		for k := range stores {
			i := (n + k) % 2
			d := stores[i]
			start := time.Now()
			for k := range turn {
				benchPage(b, d, n*turn+k)
			}
			took[i] += time.Since(start)
		}
		head, _, _ := stores[1].LogHead(netA)
		for _, raw := range records(b, stores[1], netA, head.Seq-turn) {
			bytes += len(raw)
		}
		if err := stores[1].TrimLog(netA, head.Seq); err != nil {
			b.Fatal(err)
		}
		n++
	}
	pages := float64(n * turn)
	b.ReportMetric(took[1].Seconds()/took[0].Seconds(), "times")
	b.ReportMetric(pages/took[0].Seconds(), "pages/s-without")
	b.ReportMetric(pages/took[1].Seconds(), "pages/s-with")
	b.ReportMetric(float64(bytes)/pages, "B/page")
}

// benchPage commits page n.
func benchPage(b *testing.B, d *DB, n int) {
	const host = "a.example"
	link := func(i int) URL {
		return URL(fmt.Sprintf("https://%s/section/%d/article-%d.html", host, i%17, i))
	}
	p := Page{URL: link(n), Outcome: OutcomeOK, Status: 200, Title: "An article",
		FetchedAt: time.Now()}
	for i := range 40 {
		p.Links = append(p.Links, link(n*10+i))
	}
	rec, err := p.Record()
	if err != nil {
		b.Fatal(err)
	}
	err = d.Batch(func(tx *Tx) error {
		e, err := tx.Peek(host)
		if err != nil {
			return err
		}
		if err := tx.Remove(host, e); err != nil {
			return err
		}
		if err := tx.PutRecord(rec); err != nil {
			return err
		}
		for _, u := range p.Links {
			if _, err := tx.Push(host, Entry{URL: u, Depth: 1}, 0); err != nil {
				return err
			}
		}
		for i := range 10 {
			u := URL(fmt.Sprintf("https://www%d.example/%d/index.html", i, n))
			if _, err := tx.AddPending(Pending{URL: u, From: host,
				Found: p.FetchedAt}); err != nil {
				return err
			}
		}
		return tx.PutVisit(Visit{URL: p.URL, Due: p.FetchedAt.Add(time.Hour)})
	})
	if err != nil {
		b.Fatal(err)
	}
}
