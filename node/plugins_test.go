package node

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/overlaytest"
	"peerd/overlay/plugin"
)

// A plug-in that fails is not compiled again while the disk is full, and noted as off later.
func TestPluginFailsOnFullDisk(t *testing.T) {
	publisher := overlaytest.Peers(1, 1)[0]
	pkg, err := plugin.Sign(publisher.Key, "bad", 1, []byte("no module"))
	if err != nil {
		t.Fatal(err)
	}
	f := plugin.Folder{Dir: t.TempDir(), Publishers: []peer.ID{publisher.ID}}
	if _, err := f.Put(pkg); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	var g sync.WaitGroup
	n := &Node{log: slog.New(slog.NewTextHandler(&log, nil))}
	n.plugins.service = &plugin.Service{Folder: f}
	full := true
	n.plugins.note = func(s plugin.Signed, why error) error {
		if full {
			return errors.New("no space left")
		}
		return f.SwitchOff(s, why)
	}
	for range 3 {
		n.followPlugins(t.Context(), &g)
	}
	if c := strings.Count(log.String(), "switched off plug-in"); c != 1 {
		t.Errorf("the plug-in was started %d times, want once:\n%s", c, &log)
	}
	full = false
	n.followPlugins(t.Context(), &g)
	all, err := f.List()
	if err != nil || len(all) != 1 || all[0].Off == "" {
		t.Fatalf("plug-ins are %+v, %v, want one that is off", all, err)
	}
	if _, err := f.Put(pkg); err != nil { // by hand
		t.Fatal(err)
	}
	n.followPlugins(t.Context(), &g)
	if c := strings.Count(log.String(), "switched off plug-in"); c != 2 {
		t.Errorf("the plug-in was started %d times, want twice:\n%s", c, &log)
	}
}
