package kv

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLog(t *testing.T) {
	var out bytes.Buffer
	l := badgerLog{slog.New(slog.NewTextHandler(&out, nil))}
	l.Errorf("bad %d\n", 1)
	l.Warningf("odd %d", 2)
	l.Infof("chatter")
	l.Debugf("chatter")
	badgerLog{}.Errorf("without a logger")
	got := out.String()
	for _, want := range []string{"level=ERROR", `text="bad 1"`, "level=WARN", `text="odd 2"`} {
		if !strings.Contains(got, want) {
			t.Errorf("log is %q, want %q in it", got, want)
		}
	}
	if strings.Contains(got, "chatter") {
		t.Errorf("log is %q, want no info and debug messages", got)
	}
}

// Logs are found in a directory with any name. A directory in the place of a log cannot be synced.
func TestSyncLogs(t *testing.T) {
	for _, name := range []string{"plain", "[a", "[a]", "*", "a?", `a\b`} {
		for _, log := range []string{"000001" + extValues, "00001" + extLog} {
			dir := filepath.Join(t.TempDir(), name)
			must(t, os.Mkdir(dir, 0o700))
			must(t, syncLogs(dir, true))
			must(t, os.Mkdir(filepath.Join(dir, log), 0o700))
			if err := syncLogs(dir, true); err == nil {
				t.Errorf("did not sync %s in %q", log, name)
			}
		}
	}
}
