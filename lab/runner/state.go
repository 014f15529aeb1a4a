package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/renameio/v2"
)

// A State is how far a machine or a peer has come.
type State string

// The states of a machine, in this order, and of a peer. A peer has the states from Prepared to
// Collected. From Starting on, its process may exist.
const (
	New       State = "new"
	Checked   State = "checked"   // within the limits
	Equipped  State = "equipped"  // has the program
	Prepared  State = "prepared"  // homes exist
	Joined    State = "joined"    // homes have the rules of the network
	Starting  State = "starting"  // a start was begun: whether it ran must be asked
	Running   State = "running"   //
	Paused    State = "paused"    // peers: runs, but fetches nothing
	Stopped   State = "stopped"   //
	Collected State = "collected" // logs are here
	Clean     State = "clean"     // machines: nothing is left there
	LeftOut   State = "left out"  // has failed, for the reason Why
)

// machineState is a machine in state.json.
type machineState struct {
	State   State   `json:"state"`
	Why     string  `json:"why,omitempty"`
	Address string  `json:"address,omitempty"`
	Probe   Probe   `json:"probe,omitzero"`
	From    string  `json:"program_from,omitempty"` // machine that gave the program; "": this one
	Seconds float64 `json:"setup_s,omitempty"`      // until its peers were started
}

// peerState is a peer, or the sites, in state.json.
type peerState struct {
	State   State  `json:"state"`
	Why     string `json:"why,omitempty"`
	Machine int    `json:"machine"`
	Port    int    `json:"port"`
	ID      string `json:"id,omitempty"`
	// Starts is the number of the last start of its process that was begun. The
	// process creates a directory of that number first, so that no start happens twice.
	Starts int `json:"starts"`
}

// stepState is a step of the scenario in state.json.
type stepState struct {
	Chosen bool      `json:"chosen"` // Peers are final
	Peers  []int     `json:"peers,omitempty"`
	Starts []int     `json:"starts,omitempty"` // of Peers, when they were chosen
	Begun  time.Time `json:"begun,omitzero"`
	Done   bool      `json:"done"`
}

// progress is the content of state.json: all that is needed to continue.
type progress struct {
	ID       string          `json:"id"`     // of this experiment, on the machines
	Digest   string          `json:"digest"` // SHA-256 of the file of the experiment
	Program  string          `json:"program_digest"`
	Version  string          `json:"program_version,omitempty"`
	Begun    time.Time       `json:"begun"`
	Founder  int             `json:"founder"` // peer that invites and gets the seeds; -1: none yet
	Line     string          `json:"line,omitempty"`
	SetUp    time.Time       `json:"set_up,omitzero"` // all peers were started
	Seeded   time.Time       `json:"seeded,omitzero"`
	Ended    time.Time       `json:"ended,omitzero"` // the scenario and the crawl are over
	End      string          `json:"end,omitempty"`  // why
	Resumed  int             `json:"resumed"`        // times that the runner was started again
	Machines []*machineState `json:"machines"`
	Peers    []*peerState    `json:"peers"`
	Sites    *peerState      `json:"sites,omitempty"`
	Steps    []*stepState    `json:"steps,omitempty"`
	Reported bool            `json:"reported"`
}

// ErrOther is returned for a directory with the state of another experiment.
var ErrOther = errors.New("the directory has results of another experiment or of another version " +
	"of its file; use another --out")

// ErrBusy is returned for a directory that another runner uses.
var ErrBusy = errors.New("another runner uses the directory")

// lock reserves a directory for this process until the file is closed, or the process ends. Unlike
// that of flock, the lock is not that of child processes, too, which may outlive a killed runner.
func lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	all := syscall.Flock_t{Type: syscall.F_WRLCK}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &all); err != nil {
		f.Close()
		if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
			err = ErrBusy
		}
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return f, nil
}

const stateFile = "state.json"

// load reads the state of an earlier run, nil if there is none.
func load(dir, digest string) (*progress, error) {
	text, err := os.ReadFile(filepath.Join(dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var p progress
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, fmt.Errorf("%s in %s: %w", stateFile, dir, err)
	}
	if p.Digest != digest {
		return nil, fmt.Errorf("%s: %w", dir, ErrOther)
	}
	return &p, nil
}

// save replaces state.json in one step.
func (p *progress) save(dir string) error {
	text, err := json.MarshalIndent(p, "", " ")
	if err != nil {
		return err
	}
	return renameio.WriteFile(filepath.Join(dir, stateFile), append(text, '\n'), 0o600)
}
