package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/google/renameio/v2"

	"peerd/cmd/internal/cli"
)

// An exportPosition says up to where an export has come. It is stored in FILE.part.json.
type exportPosition struct {
	Export string `json:"export"` // the kind, what is selected, and the peer of the home
	Bytes  int64  `json:"bytes"`  // of FILE.part
	// After is the last page that was read from the store, and Archive is how far each file of
	// the archive was read.
	After   string           `json:"after"`
	Archive map[string]int64 `json:"archive"`
	// Damaged is the number of records that were left out, and Damage what is wrong with the first.
	Damaged int    `json:"damaged,omitempty"`
	Damage  string `json:"damage,omitempty"`
}

// addDamage counts a record that is left out because of err.
func (p *exportPosition) addDamage(err error) {
	if p.Damaged++; p.Damaged == 1 {
		p.Damage = err.Error()
	}
}

// damage returns the error of a complete export for the records that were left out; nil: none.
func (p *exportPosition) damage() error {
	if p.Damaged == 0 {
		return nil
	}
	return fmt.Errorf("exported everything but %s, the first: %s",
		cli.Count(p.Damaged, "damaged record"), p.Damage)
}

// markEvery is the number of bytes after which the position is stored.
var markEvery int64 = 16 << 20

// resume writes FILE.part, from where an earlier call was interrupted, and renames it at the end.
func (j *exportJob) resume(
	ctx context.Context, name string, write func(context.Context, *exportJob) error,
) error {
	self, err := j.home.PeerID()
	if err != nil {
		return err
	}
	j.at.Export += " of peer " + self.String()
	part, state := name+".part", name+".part.json"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := j.continueAt(f, state); err != nil {
		return err
	}
	out := &countedFile{f: f, n: j.at.Bytes}
	w := bufio.NewWriterSize(out, 256<<10)
	j.w = w
	j.mark = func() error {
		if out.n+int64(w.Buffered()) < j.at.Bytes+markEvery {
			return nil
		}
		if err := errors.Join(w.Flush(), f.Sync()); err != nil {
			return err
		}
		j.at.Bytes = out.n
		data, err := json.Marshal(j.at)
		if err != nil {
			return err
		}
		return renameio.WriteFile(state, data, 0o644)
	}
	if err := errors.Join(write(ctx, j), w.Flush(), f.Sync()); err != nil {
		return err
	}
	// Without the state, the part would be written again from the beginning.
	if err := os.Remove(state); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(part, name); err != nil {
		return err
	}
	return j.at.damage()
}

// continueAt reads the position and cuts the file there. Without one, or if the file is shorter,
// the export begins.
func (j *exportJob) continueAt(f *os.File, state string) error {
	data, err := os.ReadFile(state)
	if err == nil {
		old := exportPosition{}
		if err := json.Unmarshal(data, &old); err != nil {
			return fmt.Errorf("read the position of the export: %s: %w", state, err)
		}
		if old.Export != j.at.Export {
			return fmt.Errorf("%s is of another export, %s; delete it, or write another file",
				state, old.Export)
		}
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if info.Size() >= old.Bytes && old.Bytes >= 0 && old.Archive != nil {
			j.at = old
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, err = f.Seek(j.at.Bytes, io.SeekStart)
	return errors.Join(f.Truncate(j.at.Bytes), err)
}

// countedFile counts the bytes that are written to a file.
type countedFile struct {
	f *os.File
	n int64
}

func (c *countedFile) Write(b []byte) (int, error) {
	n, err := c.f.Write(b)
	c.n += int64(n)
	return n, err
}
