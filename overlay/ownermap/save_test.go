package ownermap

import (
	"errors"
	"maps"
	"testing"
	"time"
)

// memStore is a Store in memory.
type memStore map[string][]byte

func (s memStore) Save(m map[string][]byte) error {
	maps.Copy(s, m)
	maps.DeleteFunc(s, func(_ string, v []byte) bool { return v == nil })
	return nil
}

func (s memStore) Each(fn func(string, []byte) error) error {
	for k, v := range s {
		if err := fn(k, v); err != nil {
			return err
		}
	}
	return nil
}

// Leases of other peers are known again after a restart. Own leases are not saved.
func TestSavedLeases(t *testing.T) {
	now := time.Now()
	s := memStore{}
	with := func(c *Config) { c.Store, c.Max = s, 3 }
	a := newMap(t, alice, with)
	a.cfg.Node.(*fakeNode).own = func() []OwnSubnet {
		return []OwnSubnet{{subnet(9), seal(t, alice, owned(alice, subnet(9), now, nil))}}
	}
	a.updateOwn(now)
	for i := range 4 {
		l := owned(bob, subnet(i), now, somewhere(float64(i)))
		added, err := a.receive(message(t, seal(t, bob, l)), dave.ID, now)
		if added != 1 || err != nil {
			t.Fatal(added, err)
		}
		if i == 2 {
			a.save()
		}
	}
	a.save()
	if len(s) != 3 || s[subnet(0).String()] != nil || s[subnet(9).String()] != nil {
		t.Errorf("saved %v, want leases 1 to 3", s)
	}
	s["nonsense"] = []byte("x")
	s[subnet(77).String()] = []byte("x")
	b := newMap(t, alice, with)
	ds := within(b.Known(), "11.0.0.0/8")
	if len(ds) != 3 || ds[0].Subnet != subnet(1) || ds[2].Owner != bob.ID.String() ||
		ds[2].Proxy.At.Vec[0] != 3 || ds[2].Proxy.Delay != 40.3 {
		t.Errorf("after a restart: %+v, want leases 1 to 3", ds)
	}
	if added, err := b.receive(message(t, seal(t, bob, owned(bob, subnet(2), now, somewhere(2)))),
		dave.ID, now); added != 0 || err != nil {
		t.Errorf("receive of a saved lease = %d, %v, want 0", added, err)
	}
	if b.save(); len(s) != 3 {
		t.Errorf("%d values after a save, want the unreadable ones deleted", len(s))
	}
	a.table.expire(now.Add(retention + time.Hour))
	if a.save(); len(s) != 0 {
		t.Errorf("%d values after the leases expired, want 0", len(s))
	}
}

type brokenStore struct{}

func (brokenStore) Save(map[string][]byte) error          { return errors.New("full") }
func (brokenStore) Each(func(string, []byte) error) error { return errors.New("unreadable") }

// What could not be saved is saved with the next changes.
func TestSavedAfterFailure(t *testing.T) {
	now := time.Now()
	s := memStore{}
	a := newMap(t, alice, nil)
	if _, err := a.receive(message(t, seal(t, bob, owned(bob, subnet(1), now, nil))), dave.ID,
		now); err != nil {
		t.Fatal(err)
	}
	for _, store := range []Store{brokenStore{}, s} {
		a.cfg.Store = store
		a.save()
	}
	if len(s) != 1 {
		t.Errorf("saved %v, want the lease", s)
	}
}

func TestStoreFails(t *testing.T) {
	c := newMap(t, alice, nil).cfg
	c.Store = brokenStore{}
	if _, err := New(c); err == nil {
		t.Error("New with a failing Store = nil, want an error")
	}
}
