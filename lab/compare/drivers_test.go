//go:build !integration

package compare

import (
	"context"
	"testing"
)

// drivers returns the drivers that do not need Colly.
func drivers(*testing.T) map[string]func(context.Context, driverOptions) (tally, error) {
	return map[string]func(context.Context, driverOptions) (tally, error){"bare": crawlBare}
}
