//go:build integration

package compare

import (
	"context"
	"os/exec"
	"testing"

	"peerd/lab/internal/build"
)

// drivers returns the drivers. It builds that of Colly, which requires network access or a
// filled module cache.
func drivers(t *testing.T) map[string]func(context.Context, driverOptions) (tally, error) {
	program, err := build.Program(t.Context(), "lab/compare/colly", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	colly := func(ctx context.Context, o driverOptions) (tally, error) {
		out, err := exec.CommandContext(ctx, program, o.text()).Output()
		if err != nil {
			return tally{}, err
		}
		return tallyOf(out)
	}
	return map[string]func(context.Context, driverOptions) (tally, error){"bare": crawlBare,
		"colly": colly}
}
