package peers

import (
	"errors"
	"testing"
	"time"
)

// A peer that was unreachable is suspect until it is heard. Only what it has sent since counts.
func TestSuspicionAndRefutation(t *testing.T) {
	key, id := identity(t, 1)
	d := testDirectory("", 10)
	put := func(seq uint64, age time.Duration) {
		t.Helper()
		_, err := d.put(mustSeal(t, key, testBeacon(id, seq, d.now)), age, hearsay{})
		if err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, suspect bool) {
		t.Helper()
		_, known := d.Get(id)
		_, relayed := d.Relayed(id)
		others := len(d.beaconsFor(syncRequest{MaxBeacons: maxFirstSync},
			testBeacon(id, 1, d.now).At))
		if d.Suspected(id) != suspect || d.Alive(id) == suspect || (len(d.All()) == 0) != suspect ||
			(d.Len() == 0) != suspect ||
			relayed == suspect || (others == 0) != suspect || (len(d.suspicions()) > 0) != suspect {
			t.Errorf("%s: suspected %v, alive %v, %d listed, Len %d, relayed %v, %d for others, "+
				"%d suspicions",
				what,
				d.Suspected(id), d.Alive(id), len(d.All()), d.Len(), relayed, others,
				len(d.suspicions()))
		}
		if !known || len(d.allPresent()) != 1 {
			t.Errorf("%s: Get = %v, want the peer present", what, known)
		}
	}
	if d.Suspect(id, d.now) {
		t.Error("Suspect of an unknown peer = true, want false")
	}
	put(1, 0)
	check("first", false)
	d.now = d.now.Add(10 * time.Second)
	if !d.Suspect(id, d.now) || d.Suspect(id, d.now) {
		t.Error("Suspect: want true the first time and false the second")
	}
	check("out of reach", true)
	d.now = d.now.Add(5 * time.Second)
	put(2, 7*time.Second)
	check("a beacon from before", true)
	put(3, time.Second)
	check("a beacon from after", false)
	d.now = d.now.Add(10 * time.Second)
	if d.Suspect(id, d.now.Add(-15*time.Second)) {
		t.Error("Suspect at a time before the peer was last heard = true, want false")
	}
	check("heard while it was checked", false)
	d.Suspect(id, d.now)
	d.now = d.now.Add(time.Second)
	d.Touch(id)
	check("in contact", false)
	d.Suspect(id, d.now)
	d.now = d.now.Add(85 * time.Second)
	check("silent for 85 s", true)
	d.now = d.now.Add(6 * time.Second)
	if _, ok := d.Get(id); ok || d.Suspected(id) {
		t.Error("a suspect outlives its lifetime")
	}
}

// A suspicion is new only if the peer was not heard since.
func TestIsNewSuspicion(t *testing.T) {
	key, id := identity(t, 1)
	d := testDirectory("", 10)
	if _, err := d.Put(mustSeal(t, key, testBeacon(id, 1, d.now))); err != nil {
		t.Fatal(err)
	}
	d.now = d.now.Add(10 * time.Second)
	for _, c := range []struct {
		what string
		d    suspicion
		want bool
	}{
		{"later than it was heard", suspicion{id, 5000}, true},
		{"earlier", suspicion{id, 11000}, false},
		{"of an unknown peer", suspicion{"unknown", 5000}, false},
		{"from the future", suspicion{id, -1}, false},
		{"from long ago", suspicion{id, suspicionTTL.Milliseconds() + 1}, false},
	} {
		if got := d.isNewSuspicion(c.d); got != c.want {
			t.Errorf("isNewSuspicion of one %s = %v", c.what, got)
		}
	}
	d.Suspect(id, d.now)
	if d.isNewSuspicion(suspicion{id, 0}) {
		t.Error("isNewSuspicion of a suspect = true, want false")
	}
}

func TestSuspicionsAreBounded(t *testing.T) {
	d := testDirectory("", 64)
	for i := range int64(3 * maxSuspicions) {
		key, id := identity(t, i+1)
		if _, err := d.Put(mustSeal(t, key, testBeacon(id, 1, d.now))); err != nil {
			t.Fatal(err)
		}
		d.now = d.now.Add(time.Second)
		d.Suspect(id, d.now)
	}
	all := d.suspicions()
	if len(all) != maxSuspicions || all[0].Age != 0 ||
		all[maxSuspicions-1].Age != (maxSuspicions-1)*1000 {
		t.Errorf("suspicions() = %v, want the latest eight", all)
	}
	s := &exchanger{env: &env{dims: testDims}}
	if err := s.finishExchange(Exchange{Peer: "x", At: testBeacon("", 1, d.now).At}, nil,
		thirdPeers{suspects: make([]suspicion, maxSuspicions+1)}); !errors.Is(err, ErrBeacon) {
		t.Errorf("finishExchange with too many suspicions: %v, want ErrBeacon", err)
	}
}
