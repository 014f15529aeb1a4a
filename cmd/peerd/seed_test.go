package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"peerd/node/admin"
)

// What was accepted before an error is told.
func TestSeedFailsLater(t *testing.T) {
	failure := errors.New("the peer has ended")
	for _, c := range []struct {
		parts int // that are accepted
		want  string
	}{{0, ""}, {1, "1000 accepted, 0 known, 0 out of scope, 0 invalid\n"}} {
		var stdout strings.Builder
		cmd := newSeedCommand()
		cmd.SetOut(&stdout)
		parts := 0
		add := func(_ context.Context, urls []string) (admin.SeedResult, error) {
			if parts++; parts > c.parts {
				return admin.SeedResult{}, failure
			}
			return admin.SeedResult{Accepted: len(urls)}, nil
		}
		src := strings.NewReader(strings.Repeat("http://a.example/\n", admin.MaxSeedURLs+1))
		err := (&seedOptions{}).seed(cmd, add, src)
		if !errors.Is(err, failure) || stdout.String() != c.want {
			t.Errorf("after %d parts: %q, %v, want %q and %v", c.parts, stdout.String(), err,
				c.want, failure)
		}
	}
}
