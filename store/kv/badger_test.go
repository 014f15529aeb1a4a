package kv

import (
	"bytes"
	"log/slog"
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
