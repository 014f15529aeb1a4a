package attack

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// An Attack is one row of docs/threats.md.
type Attack struct {
	// Name is what the command accepts.
	Name string
	// Does says what the attacker does, and By what bounds it.
	Does, By string
	// Unit is of the effect, and Limit the largest effect with which the attack holds.
	Unit  string
	Limit float64
	// Open marks an attack that is known to have an effect.
	Open bool
	// Slow marks an attack that the integration test leaves out.
	Slow bool

	run func(*arena) (outcome, error)
}

// outcome is what an attack has achieved.
type outcome struct {
	effect float64
	detail string
}

// Verdict says whether an attack had an effect.
type Verdict string

// The verdicts. Unknown means that the attack could not be carried out.
const (
	Held    Verdict = "held"
	Open    Verdict = "open"
	Broken  Verdict = "broken"
	Unknown Verdict = "unknown"
)

// Result is the result of an attack.
type Result struct {
	Name    string  `json:"name"`
	Verdict Verdict `json:"verdict"`
	Effect  float64 `json:"effect"`
	Limit   float64 `json:"limit"`
	Unit    string  `json:"unit"`
	Detail  string  `json:"detail"`
	By      string  `json:"bound_by"`
	Seconds float64 `json:"seconds"`
}

// All returns all attacks.
func All() []Attack {
	return slices.Concat(subnetAttacks(), fetchAttacks(), peerAttacks(), resourceAttacks(),
		recordAttacks(), crawlAttacks(), witnessAttacks(), optOutAttacks(), pingAttacks(),
		victimAttacks())
}

// Find returns the attacks with a name; "all" is all of them.
func Find(name string) ([]Attack, error) {
	var names []string
	for _, a := range All() {
		if a.Name == name {
			return []Attack{a}, nil
		}
		names = append(names, a.Name)
	}
	if name == "all" {
		return All(), nil
	}
	return nil, fmt.Errorf("attack: no attack is named %q, want all, or one of %s", name,
		strings.Join(names, ", "))
}

// Run carries out an attack. The error is that of ctx; other errors are in the result.
func (a Attack) Run(ctx context.Context) (Result, error) {
	r := Result{Name: a.Name, Limit: a.Limit, Unit: a.Unit, By: a.By, Verdict: Unknown}
	begin := time.Now()
	e, err := newArena(ctx)
	if err == nil {
		var got outcome
		got, err = a.run(e)
		r.Effect, r.Detail = got.effect, got.detail
		if closed := e.close(); err == nil {
			err = closed
		}
	}
	r.Seconds = time.Since(begin).Round(100 * time.Millisecond).Seconds()
	switch {
	case ctx.Err() != nil:
		return r, fmt.Errorf("attack: %s: %w", a.Name, context.Cause(ctx))
	case err != nil:
		r.Detail = err.Error()
	case r.Effect <= a.Limit:
		r.Verdict = Held
	case a.Open:
		r.Verdict = Open
	default:
		r.Verdict = Broken
	}
	return r, nil
}
