//go:build integration

package witness

import (
	"flag"
	"slices"
	"strings"
	"testing"
)

// exploreDefault is the default of -states.
const exploreDefault = 10_000

var exploreTrace = flag.Bool("trace", false, "print how a rule that is off breaks an invariant")

// exNotFound are rules without which nothing breaks within the bounds: the first two are covered by
// others among three peers, for the rest no scenario was found.
var exNotFound = []exRule{exReadsFirst, exFreshWaits, exLostWaits, exGrantWithQuorum,
	exGrantWithoutDoubt}

// exFoundBy are the scenarios in which the absence of each rule breaks an invariant.
var exFoundBy = map[exRule]string{
	exQuorumLease:     "takeover",
	exFromSending:     "late acknowledgements",
	exHoldShorter:     "takeover",
	exPromise:         "takeover",
	exRestartPromise:  "one link",
	exVoteSaved:       "one link",
	exOneVote:         "two candidates at once",
	exNoticesFirst:    "takeover",
	exVotesStop:       "takeover",
	exVoteNoted:       "silent owner for long",
	exDoubtSaved:      "silent owner for long",
	exReviveWaits:     "takeover",
	exVoteQuorum:      "takeover",
	exWindow:          "silent owner for long",
	exRanOn:           "replaced replica",
	exWholeCopy:       "incomplete copy",
	exYield:           "takeover",
	exCopiesFirst:     "takeover",
	exGrantStops:      "handover",
	exGrantSaved:      "handover",
	exGrantKept:       "handover",
	exFlushed:         "handover, lost changes",
	exFormerOwner:     "former owner",
	exForgetfulWaits:  "witness without its disk",
	exForgetfulReread: "forgetful witness",
	exVotesKept:       "silent owner for long",
}

// TestExploreRules shows what each rule is for: without it an invariant breaks.
func TestExploreRules(t *testing.T) {
	names, err := exNamesOf(testPeers)
	if err != nil {
		t.Fatal(err)
	}
	for r := exAll + 1; r < exRules; r++ {
		if slices.Contains(exNotFound, r) {
			continue
		}
		t.Run(strings.ReplaceAll(r.String(), " ", "-"), func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(exScenarios, func(sc exScenario) bool {
				return sc.name == exFoundBy[r]
			})
			if i < 0 {
				t.Fatalf("no scenario is named for the rule %q", r)
			}
			res := explore(names, exScenarios[i], r, 0, *exploreLimit)
			if res.broken == "" {
				t.Errorf("nothing breaks without the rule %q in %d states", r, res.states)
				return
			}
			t.Logf("%s after %d states", res.broken, res.states)
			if *exploreTrace {
				t.Log(strings.Join(res.trace, "\n"))
			}
		})
	}
}
