package store

import (
	"fmt"
	"strings"
	"testing"
)

// longHost is a host name of the maximum length in DNS.
var longHost = strings.Repeat(strings.Repeat("h", 49)+".", 6)[:253]

func longURL(host string, i, length int) URL {
	u := fmt.Sprintf("http://%s/%d-", host, i)
	return URL(u + strings.Repeat("p", max(0, length-len(u))))
}

// One transaction can queue a thousand URLs of any length, make them pending, or move
// them from there to a queue, even with the smallest memtable in use.
func TestThousandURLs(t *testing.T) {
	t.Parallel()
	for _, length := range []int{100, 380, 1000, 2048} {
		for _, host := range []string{"a.example", longHost} {
			t.Run(fmt.Sprintf("%d bytes, host of %d", length, len(host)), func(t *testing.T) {
				d := open(t, t.TempDir(), small)
				addHost(t, d, host, 0)
				update(t, d, func(tx *Tx) error {
					for i := range 1000 {
						if _, err := tx.AddPending(Pending{URL: longURL(host, i, length),
							Found: when, Hint: addr("2001:db8::1")}); err != nil {
							return fmt.Errorf("add pending %d: %w", i, err)
						}
					}
					return nil
				})
				update(t, d, func(tx *Tx) error {
					for i := range 1000 {
						if _, err := tx.Push(host, Entry{URL: longURL(host, i, length),
							Depth: 65535, Tries: 9}, 0); err != nil {
							return fmt.Errorf("push %d: %w", i, err)
						}
						if err := tx.RemovePending(longURL(host, i, length)); err != nil {
							return fmt.Errorf("remove pending %d: %w", i, err)
						}
					}
					return tx.PutPage(bigPage(1000))
				})
				if n := len(queue(t, d, host)); n != 1000 {
					t.Errorf("queue has %d entries, want 1000", n)
				}
				if err := d.DropHost(host); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// One transaction can import the largest chunks of a handover.
func TestBigImport(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir(), small)
	entries := make([]Entry, 500)
	for i := range entries {
		entries[i] = Entry{URL: longURL(longHost, i, 1000)}
	}
	update(t, d, func(tx *Tx) error { return tx.Import(longHost, entries, nil) })
	seen := make([]Digest, 4000)
	for i := range seen {
		seen[i] = page(longHost, i).Digest()
	}
	update(t, d, func(tx *Tx) error { return tx.Import(longHost, nil, seen) })
}

func bigPage(links int) Page {
	p := Page{URL: "http://a.example/", Links: make([]URL, links)}
	for i := range p.Links {
		d := page("x", i).Digest()
		p.Links[i] = URL(fmt.Sprintf("http://a.example/%x", d))
	}
	return p
}

func TestBigPage(t *testing.T) {
	t.Parallel()
	for _, links := range []int{50_000, 140_000} {
		dir := t.TempDir()
		d, err := openOn(t, dir, small)
		if err != nil {
			t.Fatal(err)
		}
		p := bigPage(links)
		update(t, d, func(tx *Tx) error { return tx.PutPage(p) })
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		d = open(t, dir, small)
		view(t, d, func(tx *Tx) error {
			got, err := tx.Page(p.URL)
			if err == nil && (len(got.Links) != links || got.Links[links-1] != p.Links[links-1]) {
				t.Errorf("page has %d links, want %d, the last %v", len(got.Links), links,
					p.Links[links-1])
			}
			return err
		})
	}
}
