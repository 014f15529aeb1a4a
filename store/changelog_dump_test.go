package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"peerd/store/kv"
)

func diff(want, got map[string]string) (s string) {
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if got[k] != want[k] {
			s += fmt.Sprintf("want %q = %s\n got %s\n", k, want[k], got[k])
		}
	}
	for k := range got {
		if _, ok := want[k]; !ok {
			s += fmt.Sprintf("too much: %q = %s\n", k, got[k])
		}
	}
	return s
}

// dumpSubnet returns all data of a subnet in readable form.
func dumpSubnet(t interface{ Fatal(...any) }, d *DB, p netip.Prefix, owner bool) map[string]string {
	all := map[string]string{}
	text := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	round := func(at time.Time) time.Time { return at.Round(time.Millisecond).UTC() }
	err := d.View(func(tx *Tx) error {
		hs, err := tx.HostsOf(p)
		for _, h := range hs {
			h.NextAt, h.DueAt = round(h.NextAt), round(h.DueAt)
			all["h "+h.Name] = text(h)
			err = errors.Join(err, tx.Queue(h.Name, nil, func(e Entry) (bool, error) {
				all[string(e.Key)] = text(e)
				return true, nil
			}))
			for _, s := range []byte{spaceRevisit, spaceSeen, spaceDue} {
				keys, e := tx.keysToClear(hostPrefix(s, h.Name), "", "", nil, 1<<20)
				err = errors.Join(err, e)
				for _, k := range keys {
					all[string(k)] = ""
				}
			}
			err = errors.Join(err, tx.Visits(h.Name, nil, func(v Visit) (bool, error) {
				v.Due = round(v.Due)
				all["v "+string(v.URL)] = text(v)
				return true, nil
			}))
			err = errors.Join(err, tx.EachGivenUp(h.Name, nil, func(g GivenUp) (bool, error) {
				g.At, g.First = round(g.At), round(g.First)
				all[string(g.Key)] = text(g)
				return true, nil
			}))
			if s, e := tx.State(h.Name); e == nil {
				all["t "+h.Name] = string(s)
			}
			err = errors.Join(err, tx.RobotsOf(h.Name, func(o string, v []byte) error {
				all["r "+o] = string(v)
				return nil
			}))
		}
		link := func(o Pending) (bool, error) {
			if all["link "+string(o.URL)] == "" && o.FromSubnet == p {
				if !o.Found.IsZero() {
					o.Found = round(o.Found)
				}
				all["link "+string(o.URL)] = text(o)
			}
			return true, nil
		}
		if owner {
			err = errors.Join(err, tx.each(outlinkPrefix(spaceOutlinkIndex, p), nil, true,
				func(key []byte, it kv.Item) (bool, error) {
					return true, it.Value(func(b []byte) error {
						var o Pending
						if isCrossLink(b) {
							err := decode(key, b[1:], &o)
							all["link "+string(o.URL)] = text(o)
							return err
						}
						return nil
					})
				}))
			return errors.Join(err, tx.PendingOf("far", link))
		}
		return errors.Join(err, tx.Outlinks(p, link))
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
