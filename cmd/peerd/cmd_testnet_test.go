package main

import (
	"bytes"
	"strings"
	"testing"

	"peerd/cmd/internal/cli"
)

// All options of a testnet are checked before it starts anything, also those of the last
// of several strategies.
func TestTestnetChecksFirst(t *testing.T) {
	for want, args := range map[string][]string{
		"--peers 100000: want 1 to 200":    {"--peers", "100000"},
		"--sites 0: want 1 to 2000":        {"--sites", "0"},
		`--strategy "best": want one of`:   {"--strategy", "proxy,best"},
		"--strategy is empty":              {"--strategy", ""},
		`--scenario "flood": want one of`:  {"--scenario", "flood"},
		"--pages 5: want at least one a s": {"--scenario", "load", "--pages", "5"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), append([]string{"testnet"}, args...), nil, &stdout, &stderr)
		if code != cli.ExitUsage || !strings.HasPrefix(stderr.String(), "peerd: "+want) ||
			strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("testnet %q = status %d, %q; want %d, one line with %q", args, code,
				stderr.String(), cli.ExitUsage, want)
		}
	}
}
