package node

import (
	"os"
	"testing"

	"peerd/internal/waittest"
)

func TestMain(m *testing.M) {
	waittest.Parallel()
	os.Exit(m.Run())
}
