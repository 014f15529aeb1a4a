package explore

import (
	"peerd/overlay/ownership"
	"peerd/overlay/ownership/internal/rule"
)

const messages = Lose | Delay | Repeat

// slow has an owner with a clock that is slower than the others by a fifth.
var slow = [peers]int{4, 5, 5, 5}

// scenarios are explored completely. more is added to their budgets by -faults.
var scenarios = []Scenario{
	{Name: "takeover", Peers: 3, Owned: true, Replicas: []int{1, 2}, Rates: slow,
		Kinds:  messages | Crash | Cut | DHT,
		Budget: budget{Faults: 1, Ticks: 5, Writes: 1, Attempts: 2}},
	{Name: "handover", Peers: 3, Owned: true, Replicas: []int{1}, Rates: slow,
		Kinds:  messages | Crash | Cut,
		Budget: budget{Faults: 1, Ticks: 2, Writes: 1, Attempts: 1, Moves: 1}},
	{Name: "interrupted handover", Peers: 3, Owned: true, Replicas: []int{1},
		Kinds:  Lose | Crash,
		Budget: budget{Faults: 2, Writes: 1, Moves: 1}},
	{Name: "late handover", Peers: 3, Owned: true, Replicas: []int{1},
		Kinds: Crash | Delay, Budget: budget{Faults: 3, Ticks: 1, Moves: 1}},
	{Name: "claim", Peers: 3, Kinds: messages | Crash | LoseDisk,
		Budget: budget{Faults: 1, Ticks: 1, Claims: 2}},
	{Name: "claim after a cut", Peers: 3, Kinds: LoseDisk | Cut,
		Budget: budget{Faults: 2, Ticks: 1, Claims: 2}},
	{Name: "replicas", Peers: 3, Owned: true, Replicas: []int{1}, Rates: slow,
		Kinds:  messages | Cut,
		Budget: budget{Faults: 1, Ticks: 5, Writes: 1, Attempts: 1, Copies: 1}},
	{Name: "outdated replica", Peers: 3, Owned: true, Replicas: []int{1, 2}, Kinds: Gone,
		Start:  replicaCut,
		Budget: budget{Faults: 1, Ticks: 6, Writes: 1, Copies: 1, Attempts: 1}},
	{Name: "incomplete copy", Peers: 3, Owned: true, Kinds: Lose | Crash,
		Budget: budget{Faults: 2, Ticks: 1, Leaps: 1, Copies: 1, Attempts: 1}},
	{Name: "lost disks", Peers: 3, Owned: true, Replicas: []int{1}, Rates: slow,
		Kinds:  LoseDisk | Lose,
		Budget: budget{Faults: 1, Ticks: 5, Writes: 1, Attempts: 3}},
	{Name: "lost witness", Peers: 3, Owned: true, Replicas: []int{1}, Kinds: Cut | LoseDisk,
		Budget: budget{Faults: 2, Ticks: 5, Attempts: 1}},
	{Name: "outdated DHT", Peers: 3, Owned: true, Replicas: []int{1}, Kinds: Gone | DHT | LoseDisk,
		Budget: budget{Faults: 2, Ticks: 5, Attempts: 1}},
	{Name: "forgetful witness", Peers: 3, Owned: true, Replicas: []int{1}, Kinds: Crash | Cut,
		Budget: budget{Faults: 2, Ticks: 5, Attempts: 1}},
	{Name: "renewal", Peers: 3, Owned: true, Replicas: []int{1}, Rates: slow,
		Kinds:  LoseDisk | Crash | messages,
		Budget: budget{Faults: 1, Ticks: 2, Renewals: 1, Attempts: 1}},
	{Name: "restarts", Peers: 3, Owned: true, Replicas: []int{1}, Rates: slow, Kinds: Cut | Crash,
		Budget: budget{Faults: 3, Ticks: 2, Attempts: 1}},
	{Name: "late messages", Peers: 3, Owned: true, Replicas: []int{1}, Rates: slow,
		Kinds: Cut | Delay, Budget: budget{Faults: 2, Ticks: 6, Attempts: 1}},
	{Name: "two candidates", Peers: 3, Owned: true, Replicas: []int{1, 2}, Kinds: Gone | Delay,
		Budget: budget{Faults: 3, Ticks: 4, Attempts: 2}},
	{Name: "two peers", Peers: 2, Owned: true, Replicas: []int{1}, Rates: slow, Kinds: Crash | Cut,
		Budget: budget{Faults: 1, Ticks: 26, Attempts: 1}},
	{Name: "recreate", Peers: 3, Owned: true, Recreate: true, Kinds: Lose | Crash | Cut,
		Budget: budget{Faults: 1, Ticks: 4, Leaps: 1, Attempts: 3}},
	{Name: "gone", Peers: 3, Owned: true, Replicas: []int{1}, Kinds: Gone,
		Budget: budget{Faults: 2, Ticks: 4, Leaps: 1, Attempts: 3}},
	{Name: "liar", Peers: 3, Owned: true, Replicas: []int{1, 2}, Liar: 2, Rates: slow,
		Budget: budget{Ticks: 5, Lies: 2, Attempts: 2}},
	{Name: "four peers", Peers: 4, Owned: true, Replicas: []int{1, 3}, Rates: slow,
		Kinds: Gone | Cut | LoseDisk, Budget: budget{Faults: 1, Ticks: 5, Attempts: 2}},
	{Name: "four peers, one lost", Peers: 4, Owned: true, Replicas: []int{1, 3},
		Kinds: LoseDisk, Start: ownerGone,
		Budget: budget{Faults: 1, Ticks: 4, Attempts: 2}},
}

// replicaCut cuts B off, and delays a heartbeat to C from before the start.
func replicaCut(m *model, w *world) {
	m.beat(w)
	w.late, w.net = w.net[1:], nil
	w.isolate(1, true, true)
}

// ownerGone lets A be gone for so long that the others may sign a takeover; B is cut off.
func ownerGone(_ *model, w *world) {
	w.crash(0, true)
	w.nodes[0].gone = true
	w.now += ownership.Promise
	w.isolate(1, true, true)
}

// mutants names each rule, and a scenario in which its absence is found.
var mutants = []struct {
	rule     rule.Rule
	name     string
	scenario string
}{
	{rule.ElectorsOnly, "ElectorsOnly", "liar"},
	{rule.Majority, "Majority", "claim"},
	{rule.StoreCounts, "StoreCounts", "four peers, one lost"},
	{rule.Descendant, "Descendant", "liar"},
	{rule.Silence, "Silence", "takeover"},
	{rule.SignSilence, "SignSilence", "late messages"},
	{rule.Restart, "Restart", "restarts"},
	{rule.NewStore, "NewStore", "claim after a cut"},
	{rule.Promised, "Promised", "two candidates"},
	{rule.Ascending, "Ascending", "two candidates"},
	{rule.OneBallot, "OneBallot", "late handover"},
	{rule.Report, "Report", "takeover"},
	{rule.Replica, "Replica", "outdated replica"},
	{rule.NewestReplica, "NewestReplica", "outdated replica"},
	{rule.SignerSaves, "SignerSaves", "forgetful witness"},
	{rule.Notice, "Notice", "late messages"},
	{rule.OwnerStore, "OwnerStore", "lost disks"},
	{rule.FromSending, "FromSending", "late messages"},
	{rule.HoldShorter, "HoldShorter", "takeover"},
	{rule.Quorum, "Quorum", "takeover"},
	{rule.AckStore, "AckStore", "lost witness"},
	{rule.Confirmed, "Confirmed", "outdated replica"},
	{rule.CopiesFirst, "CopiesFirst", "takeover"},
	{rule.StopFirst, "StopFirst", "handover"},
	{rule.Flush, "Flush", "interrupted handover"},
	{rule.Pending, "Pending", "late handover"},
	{rule.CedeKeeps, "CedeKeeps", "handover"},
	{rule.Retry, "Retry", "handover"},
	{rule.Adopts, "Adopts", "takeover"},
	{rule.AdoptSaves, "AdoptSaves", "takeover"},
}
