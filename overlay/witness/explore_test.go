package witness

import (
	"flag"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	exploreFaults = flag.Int("faults", 0, "additional faults of each scenario")
	exploreStates = flag.Int("states", exploreDefault, "most states of a scenario; 0: no bound")
	exploreLimit  = flag.Duration("limit", 0, "longest time for a scenario; 0: no bound")
)

// exSlowOwner makes A's clock a fifth slower than the others.
var exSlowOwner = [exPeers]time.Duration{4 * time.Second}

var exScenarios = []exScenario{
	{name: "takeover", kinds: exLose | exCrash | exCut, fair: 64,
		budget: exBudget{Faults: 1, Ticks: 9, Writes: 1, Attempts: 2, Reads: 1}},
	{name: "slow owner", kinds: exCut, rates: exSlowOwner, fair: 64,
		budget: exBudget{Faults: 2, Ticks: 8, Attempts: 1, Reads: 1}},
	{name: "late acknowledgements", kinds: exDelay, rates: exSlowOwner, start: exCutWithAcks,
		budget: exBudget{Faults: 2, Ticks: 6, Attempts: 1}},
	{name: "one link", kinds: exLink | exCrash, fair: 64,
		budget: exBudget{Faults: 2, Ticks: 7, Attempts: 1}},
	{name: "silent owner", kinds: exCrash | exDelay, start: exSilentOwner, fair: 64,
		budget: exBudget{Faults: 2, Ticks: 2, Attempts: 1}},
	{name: "silent owner for long", kinds: exCrash | exLose, start: exSilentOwner, fair: 64,
		budget: exBudget{Faults: 1, Ticks: 2, Longs: 1, Attempts: 1}},
	{name: "two candidates", kinds: exDelay | exLose, start: exTwoCandidates, fair: 64,
		budget: exBudget{Faults: 1, Ticks: 7, Attempts: 2}},
	{name: "two candidates at once", kinds: exDelay, start: exBothAsk, fair: 64,
		budget: exBudget{Faults: 1, Ticks: 1}},
	{name: "forgetful witness", kinds: exLose, start: exForgetful,
		budget: exBudget{Faults: 1, Ticks: 10}},
	{name: "former owner", kinds: exCrash, start: exHandedOver, fair: 64,
		budget: exBudget{Faults: 1, Ticks: 9, Writes: 1, Attempts: 1}},
	{name: "witness without its disk", kinds: exLoseDisk, start: exSilentOwner,
		budget: exBudget{Faults: 1, Ticks: 3, Attempts: 1}},
	{name: "replaced replica", kinds: exCrash, start: exReplaced, fair: 64,
		budget: exBudget{Faults: 1, Ticks: 6, Attempts: 1}},
	{name: "silent replica", kinds: exCrash, start: exSilentReplica, fair: 64,
		budget: exBudget{Faults: 1, Ticks: 6, Writes: 1, Attempts: 1}},
	{name: "incomplete copy", start: exIncomplete, fair: 64,
		budget: exBudget{Ticks: 2, Attempts: 2}},
	{name: "handover", kinds: exLose | exCrash | exDelay | exRepeat, fair: 64,
		budget: exBudget{Faults: 1, Ticks: 2, Moves: 1, Writes: 1}},
	{name: "handover, lost changes", kinds: exLose, fair: 64,
		budget: exBudget{Faults: 2, Ticks: 1, Moves: 1, Writes: 1}},
	{name: "handover, cut", kinds: exCut | exCrash, fair: 64,
		budget: exBudget{Faults: 2, Ticks: 6, Moves: 1, Attempts: 1, Reads: 1}},
	{name: "reclaim", kinds: exCrash | exLoseDisk | exCut,
		budget: exBudget{Faults: 2, Ticks: 2, Longs: 1, Moves: 1, Attempts: 2, Reads: 1}},
	{name: "lost replica", kinds: exCut | exCrash, fair: 64,
		budget: exBudget{Faults: 2, Ticks: 2, Longs: 1, Writes: 1, Attempts: 1}},
	{name: "lost disks", kinds: exLoseDisk | exCrash,
		budget: exBudget{Faults: 2, Ticks: 6, Writes: 1, Attempts: 1}},
}

// exCutWithAcks cuts A off when the answers to its heartbeats are on their way.
func exCutWithAcks(m *exModel, w *exWorld) {
	m.tick(w)
	for len(w.net) > 0 && !w.net[0].isAnswer() {
		x := w.net[0]
		w.net = w.net[1:]
		m.deliver(w, x, false)
	}
	exCutOff(w)
}

// exSilentOwner cuts A off until it may be followed.
func exSilentOwner(m *exModel, w *exWorld) {
	exCutOff(w)
	for range 5 {
		m.tick(w)
		m.drain(w)
	}
}

// exTwoCandidates is exSilentOwner with a complete copy at C, too.
func exTwoCandidates(m *exModel, w *exWorld) {
	a, c := &w.peers[0], &w.peers[2]
	a.replicas[2] = a.replicas[1]
	c.copy = w.peers[1].copy
	c.disk.copy, c.disk.urls = c.copy, 1
	m.save(w, 0)
	exSilentOwner(m, w)
}

// exBothAsk is exTwoCandidates when both ask for votes.
func exBothAsk(m *exModel, w *exWorld) {
	exTwoCandidates(m, w)
	m.attemptTakeover(w, 1)
	m.attemptTakeover(w, 2)
}

// exForgetful lets B take over by the vote of C, which then loses its disk. A is back, but does
// not reach B.
func exForgetful(m *exModel, w *exWorld) {
	exSilentOwner(m, w)
	m.attemptTakeover(w, 1)
	m.drain(w)
	m.lookup(w, 1)
	m.publish(w, 1, false)
	m.crash(w, 2, true)
	m.start(w, 2)
	m.renew(w, 1) // else the record would be lost with the disk of C
	w.cut[0][2], w.cut[2][0] = false, false
}

// exHandedOver hands the subnet over to B.
func exHandedOver(m *exModel, w *exWorld) {
	m.move(w, 0, 1)
	m.drain(w)
}

// exReplaced lets A lose B as a replica, choose C, and find a URL that B does not have.
func exReplaced(m *exModel, w *exWorld) {
	w.cut[0][1], w.cut[1][0] = true, true
	for range 9 {
		m.tick(w)
		m.drain(w)
	}
	m.write(w, 0)
	m.drain(w)
	w.cut = [exPeers][exPeers]bool{}
}

// exSilentReplica loses what B answers A as a replica for 20 s.
func exSilentReplica(m *exModel, w *exWorld) {
	for range 4 {
		m.tick(w)
		for len(w.net) > 0 {
			x := w.net[0]
			w.net = w.net[1:]
			if x.what != exPulseReply || x.from != 1 {
				m.deliver(w, x, false)
			}
		}
		m.check(w)
	}
}

// exIncomplete is exSilentOwner with the beginning of a copy at C.
func exIncomplete(m *exModel, w *exWorld) {
	c := &w.peers[2]
	c.copy = exCopy{of: w.peers[1].copy.of, confirmed: w.clock(2), replied: w.clock(2)}
	exSilentOwner(m, w)
}

func exCutOff(w *exWorld) {
	for q := 1; q < exPeers; q++ {
		w.cut[0][q], w.cut[q][0] = true, true
	}
}

// TestExplore visits states of every scenario, more of them with the tag integration.
func TestExplore(t *testing.T) {
	names, err := exNamesOf(testPeers)
	if err != nil {
		t.Fatal(err)
	}
	for _, sc := range exScenarios {
		t.Run(strings.ReplaceAll(sc.name, " ", "-"), func(t *testing.T) {
			sc.budget.Faults += int8(*exploreFaults)
			began := time.Now()
			res := explore(names, sc, exAll, *exploreStates, *exploreLimit)
			t.Logf("%d states, %d steps, %d continued, %v, unfinished %v, epoch %d, owners were %v",
				res.states, res.steps, res.fairRuns, time.Since(began).Round(time.Millisecond),
				res.unfinished, res.epoch, slices.Sorted(maps.Keys(res.owned)))
			if res.broken != "" {
				t.Errorf("%s, after\n%s", res.broken, strings.Join(res.trace, "\n"))
			}
		})
	}
}
