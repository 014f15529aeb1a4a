package runner

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"peerd/node/config"
)

const docsFile = "../../docs/experiment.toml"

// TestExample reads the files of docs/experiments.md.
func TestExample(t *testing.T) {
	if f, err := Read("../../docs/experiment-churn.toml"); err != nil || f.Emulate == nil {
		t.Errorf("the example with emulation: %+v, %v", f, err)
	}
	f, err := Read(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Machines) < 3 || len(f.Steps) < 3 || f.Limits.Load == 0 {
		t.Errorf("the example shows too little: %+v", f)
	}
}

// TestFaults wants the place of every fault.
func TestFaults(t *testing.T) {
	text := read(t, docsFile)
	for _, c := range []struct{ old, new, want string }{
		{"name = ", "nom = ", ":2:1: unknown key \"nom\""},
		{"for = \"2h\"", "for = 5", "for: \"5\" is not a duration"},
		{"for = \"2h\"", "for = \"2y\"", "\"2y\" is not a duration"},
		{"of = 33", "of = 133", "step[2].of is 133"},
		{"do = \"kill\"", "do = \"maim\"", "step[2].do is \"maim\""},
		{"mode = \"domains\"", "mode = \"all\"", "profile.scope.mode is \"all\""},
		{"contact =", "contacts =", "unknown key \"settings.contacts\""},
		{"load = 0.8", "load = \"high\"", "limits.load: got string, want a number"},
		{"name = \"b\"", "name = \"a\"", "machine[2].name \"a\" is that of another machine"},
		{"until = \"idle\"", "until = \"never\"", "until is \"never\""},
	} {
		bad := strings.Replace(text, c.old, c.new, 1)
		err := config.Parse("f.toml", []byte(bad), defaults())
		if bad == text || !errors.Is(err, config.ErrInvalid) ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.new, err, c.want)
			continue
		}
		first, _, _ := strings.Cut(err.Error(), "\n")
		line := 1 + strings.Count(bad[:strings.LastIndex(bad, c.new)], "\n")
		if !strings.HasPrefix(first, "f.toml:"+strconv.Itoa(line)+":") {
			t.Errorf("%s: %s, want line %d", c.new, first, line)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// FuzzParse parses files.
func FuzzParse(f *testing.F) {
	text, err := os.ReadFile(docsFile)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Add("[[machine]]\n[[machine.x]]\n[[step]]\nat=1\n[emulate]\n")
	f.Fuzz(func(t *testing.T, text string) {
		file := defaults()
		if err := config.Parse("f", []byte(text), file); err != nil {
			if !errors.Is(err, config.ErrInvalid) {
				t.Errorf("%v is not marked as invalid", err)
			}
			return
		}
		if len(file.Machines) == 0 || file.For.Duration <= 0 {
			t.Errorf("accepted %+v", file)
		}
		for _, m := range file.Machines {
			if len(m.Command) == 0 || m.Peers < 1 || m.Dir == "" {
				t.Errorf("accepted %+v", m)
			}
		}
	})
}
