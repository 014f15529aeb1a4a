package similar

import (
	"math/rand/v2"
	"strings"
)

// Simplified English: enough grammar for repeated function words and phrases, enough words
// for pages to differ.
var (
	determiners  = words1("the a this each every some our their no another")
	prepositions = words1("of in on with from under behind before during without against for")
	joints       = words1("and but because while although when so that")
	stems        = words1(
		"server page crawl index queue host river market kernel table driver module " +
			"letter garden engine signal border pattern window bridge sample record lease " +
			"thread budget channel harbour winter number object method buffer socket")
	endings = words1("- s er ing ation ment ness ward less ful ship hood like able")
	verbs   = words1(
		"takes gives holds moves finds leaves reads writes counts drops opens closes " +
			"keeps loses sends meets follows checks builds breaks")
	adverbs = words1("slowly often never always rarely again together first elsewhere twice")
)

func words1(s string) []string { return strings.Fields(s) }

// author writes texts that depend on its seed.
type author struct{ r *rand.Rand }

func newAuthor(seed uint64) author { return author{rand.New(rand.NewPCG(seed, 1))} }

func (a author) pick(from []string) string { return from[a.r.IntN(len(from))] }

// rare prefers the first elements of a list, as languages do.
func (a author) rare(from []string) string {
	return from[int(float64(len(from))*a.r.Float64()*a.r.Float64())]
}

func (a author) noun() string {
	n := a.rare(stems)
	if end := a.rare(endings); end != "-" {
		n += end
	}
	if a.r.IntN(3) == 0 {
		n = a.pick(stems) + n
	}
	return n
}

func (a author) sentence() []string {
	s := []string{a.rare(determiners), a.noun(), a.pick(verbs), a.rare(determiners), a.noun()}
	if a.r.IntN(2) == 0 {
		s = append(s, a.rare(prepositions), a.rare(determiners), a.noun())
	}
	if a.r.IntN(4) == 0 {
		s = append(s, a.pick(adverbs))
	}
	if a.r.IntN(3) == 0 {
		s = append(append(s, a.pick(joints)), a.sentence()...)
	}
	return s
}

// text returns n words.
func (a author) text(n int) []string {
	var t []string
	for len(t) < n {
		t = append(t, a.sentence()...)
	}
	return t[:n]
}

// edit returns t with a share of its words replaced, in runs of up to ten words.
func (a author) edit(t []string, share float64) []string {
	t = append([]string(nil), t...)
	for left := max(int(share*float64(len(t))), 1); left > 0; {
		n := min(left, 1+a.r.IntN(10))
		at := a.r.IntN(len(t) - n + 1)
		copy(t[at:at+n], a.text(n))
		left -= n
	}
	return t
}
