package ownership

import (
	"fmt"
	"strings"
)

// Table returns the transitions as a table for docs/protocol/ownership-machine.md.
func Table() string {
	var b strings.Builder
	b.WriteString("| in state | event | leads to | what happens |\n|---|---|---|---|\n")
	for _, t := range transitions {
		to := "the same"
		if t.to != nil {
			to = names(t.to)
		}
		fmt.Fprintf(&b, "| %s | %v | %s | %s |\n", names(t.in), t.on, to, t.text)
	}
	return b.String()
}

func names(states []State) string {
	var all []string
	for _, s := range states {
		all = append(all, s.String())
	}
	return strings.Join(all, ", ")
}
