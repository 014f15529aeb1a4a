package ownermap

import (
	"strings"
	"testing"
	"time"
)

// A peer two hops away learns of an owner's subnets, and of a change of the owner.
func TestGossip(t *testing.T) {
	t.Parallel()
	a := join(t, alice, nil)
	b := join(t, bob, nil)
	c := join(t, carol, nil)
	connect(t, a, b)
	connect(t, b, c)
	now := time.Now()
	var own []OwnSubnet
	for i := range 60 {
		own = append(own, OwnSubnet{subnet(i),
			seal(t, alice, owned(alice, subnet(i), now, somewhere(float64(i))))})
	}
	a.has(own...)
	until(t, "own subnets are known", func() bool { return a.Stats().Subnets == 60 })
	until(t, "a peer two hops away knows all subnets", func() bool {
		return c.Stats().Subnets == 60
	})
	ds := within(c.Known(), "11.0.4.0/22")
	if len(ds) != 4 || ds[0].Subnet != subnet(4) || ds[3].Subnet != subnet(7) ||
		ds[1].Owner != alice.ID.String() || ds[1].Proxy.At.Vec[0] != 5 {
		t.Errorf("Within(11.0.4.0/22) = %+v, want subnets 4 to 7 of alice", ds)
	}

	before := c.Known()
	moved := granted(t, alice, carol, subnet(4), now)
	a.has(own[5:]...)
	c.has(OwnSubnet{subnet(4), seal(t, carol, moved)})
	until(t, "the old owner knows the new one", func() bool {
		ds := within(a.Known(), "11.0.4.0/24")
		return len(ds) == 1 && ds[0].Owner == carol.ID.String()
	})
	if ds := within(before, "11.0.4.0/24"); len(ds) != 1 || ds[0].Owner != alice.ID.String() {
		t.Errorf("snapshot changed: %+v", ds)
	}
}

// If nothing changes, leases are not announced again until they are due to be repeated, even if
// they are renewed.
func TestNoAnnouncementWithoutChange(t *testing.T) {
	t.Parallel()
	slow := func(c *Config) { c.RepeatAfter = time.Hour }
	a, b := join(t, alice, slow), join(t, bob, slow)
	connect(t, a, b)
	now := time.Now()
	proxy := somewhere(1)
	a.has(OwnSubnet{subnet(1), seal(t, alice, owned(alice, subnet(1), now, proxy))})
	until(t, "the other peer knows the subnet", func() bool { return b.Stats().Subnets == 1 })
	for i := range 20 {
		a.has(OwnSubnet{subnet(1),
			seal(t, alice, owned(alice, subnet(1), now.Add(time.Duration(i+1)*time.Millisecond),
				proxy))})
		time.Sleep(5 * time.Millisecond)
	}
	if s := a.Stats(); s.Sent != 1 {
		t.Errorf("%d announcements of one subnet, want 1", s.Sent)
	}
	if s := b.Stats(); s.Sent != 0 || s.Received != 1 {
		t.Errorf("stats of the other peer = %+v, want nothing sent and one received", s)
	}
}

func TestLateJoinerReceivesRepetition(t *testing.T) {
	t.Parallel()
	often := func(c *Config) { c.RepeatAfter, c.RepeatRate = 10*time.Millisecond, 1<<20 }
	a, b := join(t, alice, often), join(t, bob, often)
	connect(t, a, b)
	var at time.Duration
	renew := func() { // as its owner does
		at += time.Millisecond
		a.has(OwnSubnet{subnet(1),
			seal(t, alice, owned(alice, subnet(1), time.Now().Add(at), nil))})
	}
	renew()
	until(t, "the other peer knows the subnet", func() bool { return b.Stats().Subnets == 1 })
	c := join(t, carol, often)
	connect(t, b, c)
	until(t, "the late joiner knows the subnet", func() bool {
		renew()
		return c.Stats().Subnets == 1
	})
}

// The repetitions of all peers together do not exceed RepeatRate.
func TestRepeatRate(t *testing.T) {
	m := newMember(t, alice, func(c *Config) {
		d := DefaultConfig()
		c.Step, c.Gap, c.Settle = d.Step, d.Gap, d.Settle
		c.Node.(*fakeNode).peers = 99
	})
	leave, err := m.join()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := leave(); err != nil {
			t.Error(err)
		}
	}()
	connect(t, m, join(t, bob, nil))
	until(t, "peers are connected", func() bool { return len(m.topic.ListPeers()) == 1 })
	now := time.Now()
	start := now
	own := make([]OwnSubnet, 40)
	for i := range own {
		own[i] = OwnSubnet{subnet(i), seal(t, alice, owned(alice, subnet(i), now, somewhere(2)))}
	}
	m.cfg.Node.(*fakeNode).own = func() []OwnSubnet { return own }
	m.updateOwn(now)
	for m.Stats().Sent < 40 {
		now = now.Add(time.Second)
		m.announce(t.Context(), now)
	}
	if took := now.Sub(start); took < 5*time.Second || took > time.Minute {
		t.Errorf("announcing all subnets took %v, want 5 s to a minute", took)
	}
	bytes := m.Stats().SentBytes
	t.Logf("%.0f bytes per subnet", float64(bytes)/40)
	if bytes > 40*350 {
		t.Errorf("%d bytes for 40 subnets, want at most 14000", bytes)
	}
	const hours = 1000
	for end := start.Add(hours * time.Hour); now.Before(end); now = now.Add(10 * time.Minute) {
		m.announce(t.Context(), now)
	}
	perSecond := float64(m.Stats().SentBytes-bytes) / (hours * 3600)
	t.Logf("%.2f bytes per second by one of 100 peers", perSecond)
	if perSecond < 0.85*0.32 || perSecond > 1.1*0.32 {
		t.Errorf("%.2f bytes per second by one of 100 peers, want %.2f", perSecond, 0.32)
	}
}

func TestConfigValidate(t *testing.T) {
	if err := newMap(t, alice, nil).cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	err := Config{}.Validate()
	for _, want := range []string{"Self", "PubSub", "Topic", "Node", "Max", "Step", "Gap",
		"RepeatAfter", "RepeatRate", "Size"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate does not mention %s: %v", want, err)
		}
	}
}
