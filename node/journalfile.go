package node

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/google/renameio/v2"

	"peerd/node/admin"
)

// kept is the part of a journal that outlives the process, in the file journal.json of the home. It
// is written with each sample and at the end; a killed peer forgets the moves since the last one.
type kept struct {
	Moves   []admin.Move   `json:"moves"`
	Samples []admin.Sample `json:"samples"`
}

// load adds what an earlier process has kept: the moves, and the samples of the last day.
func (j *journal) load(file string, now time.Time) error {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var k kept
	if err == nil {
		err = json.Unmarshal(data, &k)
	}
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, m := range k.Moves {
		m.Seq = 0 // its event is forgotten
		j.moves.add(m)
	}
	for _, s := range k.Samples {
		if now.Sub(s.At) < maxSamples*sampleEvery && !s.At.After(now) {
			j.samples.add(s)
		}
	}
	return nil
}

func (j *journal) save(file string) error {
	j.mu.Lock()
	k := kept{Moves: j.moves.list(), Samples: j.samples.list()}
	j.mu.Unlock()
	data, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return renameio.WriteFile(file, data, 0o600)
}
