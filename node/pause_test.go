package node

import (
	"testing"
	"testing/synctest"
	"time"

	"peerd/store"
	"peerd/store/kv"
)

// Who asks whether there is a pause does not wait for the disk on which it is saved.
func TestPauseOnSlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := kv.NewDisk()
		db, err := store.Open("", store.Options{Disk: disk})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		disk.SetDelays(kv.Delays{Sync: time.Minute})
		p := &pause{db: db}
		done := make(chan error, 1)
		go func() { done <- p.set(forever) }()
		synctest.Wait()
		if p.mu.TryLock() {
			p.mu.Unlock()
		} else {
			t.Error("the pause is locked while it is saved")
		}
		if err := <-done; err != nil || p.wait(time.Now()) == 0 {
			t.Errorf("set() = %v, and then no pause", err)
		}
	})
}
