package replica

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"peerd/overlay/overlaytest"
	"peerd/store"
	"peerd/store/kv"
)

// A copy that cannot be wiped because the disk is full is wiped when there is space. That is tried,
// and said, ever less often.
func TestWipeOnFullDisk(t *testing.T) {
	t.Parallel()
	h := listen(t)
	synctest.Test(t, func(t *testing.T) {
		disk := kv.NewDisk()
		db := overlaytest.StoreOnDisk(t, disk)
		addHost(t, db, subnet, "a.test", 3)
		update(t, db, func(tx *store.Tx) error {
			return tx.PutSubnet(store.Subnet{Prefix: subnet, Phase: store.PhaseStaged})
		})
		var said bytes.Buffer
		s, err := New(Config{Host: h, Protocol: proto, DB: db, URLs: overlaytest.URLs(checkURL),
			Logger: slog.New(slog.NewTextHandler(&said, nil))})
		if err != nil {
			t.Fatal(err)
		}
		disk.SetFull(true)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { s.copies.runSweep(ctx) })
		phase := func() store.Phase {
			p, err := s.copies.phase(subnet)
			if err != nil {
				t.Error(err)
			}
			return p
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := strings.Count(said.String(), "failed to wipe copy"); n < 5 || n > 7 {
			t.Errorf("said %d times in ten minutes that a wipe failed, want about 6", n)
		}
		if p := phase(); p != store.PhaseStaged {
			t.Errorf("the subnet is %v on a full disk", p)
		}
		disk.SetFull(false)
		time.Sleep(longestWipeRetry)
		synctest.Wait()
		if p := phase(); p != store.PhaseNone {
			t.Errorf("the subnet is %v when there is space, want none", p)
		}
		if err := db.View(func(tx *store.Tx) error {
			_, err := tx.Host("a.test")
			return err
		}); !errors.Is(err, store.ErrNotFound) {
			t.Error("the host is left:", err)
		}
		cancel()
		wg.Wait()
	})
}
