package crawl

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"peerd/crawl/hsts"
	"peerd/store"
)

// A peer that was stopped for long starts, although more hosts have expired than one transaction
// can delete.
func TestManyHostsHaveExpired(t *testing.T) {
	t.Parallel()
	db, err := store.Open("", store.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	now := time.Now()
	var hosts []string
	for i := range hstsHosts / 2 {
		hosts = append(hosts, fmt.Sprintf("host-%05d.example", i))
	}
	put := func(expires time.Time, names ...string) {
		t.Helper()
		raw, err := cbor.Marshal(hsts.Policy{Expires: expires})
		if err != nil {
			t.Fatal(err)
		}
		err = db.Update(func(tx *store.Tx) error {
			for _, name := range names {
				if err := tx.PutData(hstsSpace+name, raw); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for part := range slices.Chunk(hosts, 1000) {
		put(now.Add(-time.Hour), part...)
	}
	put(now.Add(time.Hour), "valid.example")
	set, err := loadHSTS(db)
	if err != nil {
		t.Fatal(err)
	}
	if !set.Applies("valid.example", now) || set.Len() != 1 {
		t.Errorf("%d hosts are loaded, want valid.example only", set.Len())
	}
	left := 0
	err = db.View(func(tx *store.Tx) error {
		return tx.EachData(hstsSpace, func(string, []byte) (bool, error) {
			left++
			return true, nil
		})
	})
	if err != nil || left != 1 {
		t.Errorf("%d hosts are left in the store (%v), want 1", left, err)
	}
}
