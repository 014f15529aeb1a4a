package node

import (
	"os"
	"testing"

	"peerd/crawl/crawllet"
	"peerd/internal/waittest"
)

func TestMain(m *testing.M) {
	crawllet.Main() // of plug-ins
	waittest.Parallel()
	os.Exit(m.Run())
}
