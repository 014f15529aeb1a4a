package experiment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// maxFileBytes bounds the size of a file of runs, maxRuns the number of its runs.
const (
	maxFileBytes = 1 << 20
	maxRuns      = 100
)

// fileRun is one run of a file. Its keys are the name of the experiment and the flags of the
// command line with underscores.
type fileRun struct {
	Experiment string    `toml:"experiment"`
	Seed       uint64    `toml:"seed"`
	Seeds      int       `toml:"seeds"`
	Peers      int       `toml:"peers"`
	Sites      int       `toml:"sites"`
	Rounds     int       `toml:"rounds"`
	K          []int     `toml:"k"`
	Threshold  []float64 `toml:"threshold"`
	Matrix     string    `toml:"matrix"`
	Times      string    `toml:"times"`
	World      []string  `toml:"world"`
	DelayMS    float64   `toml:"delay_ms"`
	RTTs       float64   `toml:"rtts"`
	Quick      bool      `toml:"quick"`
	Intervals  bool      `toml:"intervals"`
}

// ReadRuns reads a TOML file of runs of any of the experiments. Each run is a table [[run]]
// with the key experiment and keys for the flags of the command line (delay_ms for --delay-ms).
// Names of data files are relative to the directory of the file. An unknown key is an error
// that names its line. Errors wrap ErrParams.
func ReadRuns(all []Experiment, name string) ([]Run, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, paramsError("%w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	switch {
	case err != nil:
		return nil, paramsError("%w", err)
	case len(text) > maxFileBytes:
		return nil, paramsError("%s: larger than %d bytes", name, maxFileBytes)
	}
	return parseRuns(all, name, text)
}

// parseRuns parses the text of a file for ReadRuns.
func parseRuns(all []Experiment, name string, text []byte) ([]Run, error) {
	var file struct {
		Run []fileRun `toml:"run"`
	}
	if err := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(
		&file); err != nil {
		return nil, paramsError("%s", tomlFault(name, err))
	}
	if len(file.Run) == 0 {
		return nil, paramsError("%s: no runs; begin each with [[run]] and experiment = \"NAME\"",
			name)
	}
	if len(file.Run) > maxRuns {
		return nil, paramsError("%s: %d runs, at most %d", name, len(file.Run), maxRuns)
	}
	runs := make([]Run, len(file.Run))
	for i, r := range file.Run {
		if r.Experiment == "" {
			return nil, paramsError("%s: run %d has no key experiment", name, i+1)
		}
		e, err := Find(all, r.Experiment)
		if err != nil {
			return nil, fmt.Errorf("%w (run %d of %s)", err, i+1, name)
		}
		runs[i] = Run{e, r.params(filepath.Dir(name))}
		if err := runs[i].Params.Validate(); err != nil {
			return nil, fmt.Errorf("%w (run %d of %s)", err, i+1, name)
		}
	}
	return runs, nil
}

// params converts a run into Params. Names of files are relative to dir.
func (r fileRun) params(dir string) Params {
	at := func(name string) string {
		if name == "" || filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(dir, name)
	}
	p := Params{
		Seed: r.Seed, Seeds: r.Seeds, Peers: r.Peers, Sites: r.Sites, Rounds: r.Rounds, K: r.K,
		Threshold: r.Threshold,
		Matrix:    at(r.Matrix), Times: at(r.Times), DelayMS: r.DelayMS, RTTs: r.RTTs,
		Quick: r.Quick, Intervals: r.Intervals,
	}
	for _, w := range r.World {
		p.World = append(p.World, at(w))
	}
	return p
}

// tomlFault describes an error of the TOML decoder, with its position, in one line.
func tomlFault(name string, err error) string {
	var missing *toml.StrictMissingError
	var wrong *toml.DecodeError
	switch {
	case errors.As(err, &missing) && len(missing.Errors) > 0:
		first := missing.Errors[0]
		row, col := first.Position()
		return fmt.Sprintf("%s:%d:%d: unknown key %q", name, row, col,
			clip(strings.Join(first.Key(), ".")))
	case errors.As(err, &wrong):
		row, col := wrong.Position()
		msg := strings.TrimPrefix(wrong.Error(), "toml: ")
		// names of Go types do not help the user
		if i := strings.Index(msg, " into struct field "); i >= 0 {
			msg = msg[:i] + ", which does not fit here"
		}
		key := strings.Join(wrong.Key(), ".")
		if key != "" {
			key = clip(key) + ": "
		}
		return fmt.Sprintf("%s:%d:%d: %s%s", name, row, col, key,
			strings.ReplaceAll(msg, "\n", " "))
	}
	return fmt.Sprintf("%s: %s", name, strings.ReplaceAll(strings.TrimPrefix(err.Error(), "toml: "),
		"\n", " "))
}
