package atlas

import (
	"errors"
	"maps"
	"testing"
	"time"
)

// shelf is a Keeper.
type shelf map[string][]byte

func (s shelf) Save(m map[string][]byte) error {
	maps.Copy(s, m)
	maps.DeleteFunc(s, func(_ string, v []byte) bool { return v == nil })
	return nil
}

func (s shelf) Each(fn func(string, []byte) error) error {
	for k, v := range s {
		if err := fn(k, v); err != nil {
			return err
		}
	}
	return nil
}

// What others own is known again after a restart; our own the owner knows.
func TestKept(t *testing.T) {
	now := time.Now()
	s := shelf{}
	with := func(c *Config) { c.Keeper, c.Max = s, 3 }
	a := alone(t, alice, with)
	a.cfg.Own = func() []Own { return []Own{{subnet(9), seal(t, alice, owned(alice, subnet(9), now, nil))}} }
	a.look(now)
	for i := range 4 {
		l := owned(bob, subnet(i), now, somewhere(float64(i)))
		if news, err := a.take(message(t, seal(t, bob, l)), now); news != 1 || err != nil {
			t.Fatal(news, err)
		}
		if i == 2 {
			a.save()
		}
	}
	a.save()
	if len(s) != 3 || s[subnet(0).String()] != nil || s[subnet(9).String()] != nil {
		t.Errorf("kept %v", s)
	}
	s["nonsense"] = []byte("x")
	s[subnet(77).String()] = []byte("x")
	b := alone(t, alice, with)
	ds := within(b.Known(), "11.0.0.0/8")
	if len(ds) != 3 || ds[0].Subnet != subnet(1) || ds[2].Owner != bob.id.String() || ds[2].Proxy.At.Vec[0] != 3 || ds[2].Proxy.Delay != 40.3 {
		t.Errorf("after a restart: %+v", ds)
	}
	if news, err := b.take(message(t, seal(t, bob, owned(bob, subnet(2), now, somewhere(2)))), now); news != 0 || err != nil {
		t.Errorf("what was kept is news: %d, %v", news, err)
	}
	if b.save(); len(s) != 3 {
		t.Errorf("what could not be read is still kept: %d", len(s))
	}
	a.table.expire(now.Add(keepFor + time.Hour))
	if a.save(); len(s) != 0 {
		t.Errorf("what has expired is still kept: %d", len(s))
	}
}

type broken struct{}

func (broken) Save(map[string][]byte) error          { return errors.New("full") }
func (broken) Each(func(string, []byte) error) error { return errors.New("unreadable") }

func TestKeeperFails(t *testing.T) {
	c := alone(t, alice, nil).cfg
	c.Keeper = broken{}
	if _, err := New(c); err == nil {
		t.Error("a store that cannot be read goes unnoticed")
	}
}
