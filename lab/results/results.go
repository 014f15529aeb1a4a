// Package results runs the commands that produce the published figures, which a file in the
// repository lists: docs/results/results.toml.
package results

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pelletier/go-toml/v2"
)

// File is the list, relative to the root of the repository.
const File = "docs/results/results.toml"

// maxFileBytes bounds the size of a list.
const maxFileBytes = 1 << 20

// An Entry is a published figure, or a table of them.
type Entry struct {
	// Name identifies it.
	Name string `toml:"name"`
	// Document is where it is published, relative to the root of the repository.
	Document string `toml:"document"`
	// Command prints it. Its words are separated by blanks, without quotes; the first one is
	// peerd-lab, peerd or go.
	Command string `toml:"command"`
	// Real reports that the figure depends on the machine, because time is real.
	Real bool `toml:"real"`
	// Minutes is how long it takes on two cores.
	Minutes float64 `toml:"minutes"`
	// Data are the words of Command that are files or directories of a directory of data.
	Data []string `toml:"data"`
	// Manual says, in place of Command, why no command prints the figure.
	Manual string `toml:"manual"`
}

// Read reads a list of entries.
func Read(name string) ([]Entry, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFileBytes {
		return nil, fmt.Errorf("%s: larger than %d bytes", name, maxFileBytes)
	}
	var file struct {
		Result []Entry `toml:"result"`
	}
	err = toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(&file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	seen := map[string]bool{}
	for i, e := range file.Result {
		if err := e.validate(); err != nil {
			return nil, fmt.Errorf("%s: result %d (%q): %w", name, i+1, e.Name, err)
		}
		if seen[e.Name] {
			return nil, fmt.Errorf("%s: two results are called %q", name, e.Name)
		}
		seen[e.Name] = true
	}
	return file.Result, nil
}

// programs are the first words of commands.
var programs = []string{"peerd-lab", "peerd", "go"}

func (e Entry) validate() error {
	words := strings.Fields(e.Command)
	switch {
	case e.Name == "" || e.Document == "":
		return errors.New("no name or no document")
	case e.Manual != "" && e.Command != "" || e.Manual == "" && e.Command == "":
		return errors.New("want either command or manual")
	case e.Manual != "":
		return nil
	case !slices.Contains(programs, words[0]):
		return fmt.Errorf("the command begins with %q, want one of %v", words[0], programs)
	case e.Minutes <= 0:
		return errors.New("no minutes")
	}
	for _, d := range e.Data {
		if !slices.Contains(words, d) {
			return fmt.Errorf("data %q is no word of the command", d)
		}
	}
	return nil
}

// Missing returns the data of e that a directory of data lacks.
func (e Entry) Missing(dir string) (missing []string) {
	for _, d := range e.Data {
		if matches, err := filepath.Glob(filepath.Join(dir, d)); dir == "" || err != nil ||
			len(matches) == 0 {
			missing = append(missing, d)
		}
	}
	return missing
}

// args returns the arguments of the command. Data are names in dir, and may be patterns.
func (e Entry) args(dir string) (args []string) {
	for _, w := range strings.Fields(e.Command) {
		matches := []string{w}
		if slices.Contains(e.Data, w) {
			matches, _ = filepath.Glob(filepath.Join(dir, w)) // Missing has tried it
		}
		args = append(args, matches...)
	}
	return args
}

// Run runs the command of e in the current directory, which is the root of the repository, and
// writes what it prints. self is the program peerd-lab.
func (e Entry) Run(ctx context.Context, self, dir string, stdout, stderr io.Writer) error {
	args := e.args(dir)
	switch args[0] {
	case "peerd-lab":
		args[0] = self
	case "peerd":
		args = append([]string{"go", "run", "./cmd/peerd"}, args[1:]...)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	// A group of its own gets the signal, because go run does not pass it on.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = time.Minute
	err := cmd.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// Report runs entries one after the other and writes a page in Markdown with what they print. It
// returns the number of those that failed; the error is that of ctx or w.
func Report(
	ctx context.Context, w, stderr io.Writer, self, version, dir string, entries []Entry,
) (failed int, err error) {
	host := fmt.Sprintf("%s, %s", time.Now().Format("2006-01-02 15:04"), version)
	if _, err := fmt.Fprintf(w, "# Results\n\n%s.\n", host); err != nil {
		return 0, err
	}
	for _, e := range entries {
		_, err := fmt.Fprintf(w, "\n## %s\n\nPublished in %s.\n\n", e.Name, e.Document)
		if err != nil {
			return failed, err
		}
		switch missing := e.Missing(dir); {
		case e.Manual != "":
			fmt.Fprintf(w, "Not repeated by a command: %s.\n", e.Manual)
			continue
		case len(missing) > 0:
			fmt.Fprintf(w, "Skipped: there is no %s in --data.\n", strings.Join(missing, ", "))
			continue
		}
		fmt.Fprintf(w, "    %s\n\n```\n", strings.Join(strings.Fields(e.Command), " "))
		began := time.Now()
		runErr := e.Run(ctx, self, dir, w, stderr)
		how := "It succeeded"
		if runErr != nil {
			failed++
			how = fmt.Sprintf("It failed (%v)", runErr)
		}
		_, err = fmt.Fprintf(w, "```\n\n%s, after %s. Load at the end: %s.\n", how,
			time.Since(began).Round(time.Second), load())
		if err := errors.Join(ctx.Err(), err); err != nil {
			return failed, err
		}
	}
	return failed, nil
}

// load returns the mean number of processes that wanted to run in the last minute.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Fields(string(text))[0]
}
