package store

import (
	"fmt"
	"testing"
)

// BenchmarkStore measures the transactions of a crawl: committing a page, by one and by
// many callers, and reading.
func BenchmarkStore(b *testing.B) {
	for name, mk := range map[string]func() *DB{
		"badger": func() *DB { return open(b, b.TempDir(), small) },
		"memory": func() *DB { return memory(b) },
	} {
		b.Run(name+"/page", func(b *testing.B) {
			d := mk()
			addHost(b, d, "a.example", 1)
			n := 0
			for b.Loop() {
				n++
				update(b, d, func(tx *Tx) error { return crawlStep(tx, n) })
			}
		})
		b.Run(name+"/small", func(b *testing.B) {
			d := mk()
			for b.Loop() {
				update(b, d, func(tx *Tx) error { return tx.PutData("key", []byte("value")) })
			}
		})
		b.Run(name+"/batch", func(b *testing.B) {
			d := mk()
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := d.Batch(func(tx *Tx) error {
						return tx.PutData("key", []byte("value"))
					}); err != nil {
						b.Error(err)
					}
				}
			})
		})
		d := mk()
		addHost(b, d, "a.example", 500)
		b.Run(name+"/look", func(b *testing.B) {
			for b.Loop() {
				view(b, d, func(tx *Tx) error {
					if _, err := tx.Host("a.example"); err != nil {
						return err
					}
					_, err := tx.Peek("a.example")
					return err
				})
			}
		})
		b.Run(name+"/walk500", func(b *testing.B) {
			for b.Loop() {
				if n := len(queue(b, d, "a.example")); n != 500 {
					b.Fatal(n)
				}
			}
		})
	}
}

// crawlStep removes an entry, queues ten, adds five pending URLs and stores a page.
func crawlStep(tx *Tx, n int) error {
	e, err := tx.Peek("a.example")
	if err != nil {
		return err
	}
	if err := tx.Remove("a.example", e); err != nil {
		return err
	}
	for i := range 10 {
		if _, err := tx.Push("a.example",
			Entry{URL: URL(fmt.Sprintf("http://a.example/%d/%d", n, i))}, 0); err != nil {
			return err
		}
	}
	for i := range 5 {
		if _, err := tx.AddPending(
			Pending{URL: URL(fmt.Sprintf("http://b%d.example/%d", i, n))}); err != nil {
			return err
		}
	}
	p := bigPage(20)
	p.URL = e.URL
	return tx.PutPage(p)
}
