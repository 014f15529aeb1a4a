//go:build integration

package live

import (
	"flag"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"peerd/lab/internal/build"
)

var readByArrow = flag.Bool("arrow", false,
	"read the Parquet files with Apache Arrow, which takes a minute or two to compile")

// Another reader than that of the library opens the files: that of Apache Arrow.
func TestParquetIndependently(t *testing.T) {
	t.Parallel()
	if !*readByArrow {
		t.Skip("compiling Apache Arrow takes a minute or two: -args -arrow")
	}
	dir := t.TempDir()
	if _, err := ExportParquet(dir, []string{small(t)}); err != nil {
		t.Fatal(err)
	}
	reader, err := build.Program(t.Context(), "lab/live/arrow", t.TempDir())
	if err != nil {
		t.Skipf("needs the modules of lab/live/arrow: %v", err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(reader, files...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"page.parquet 2\n", "exchange.parquet 1\n", `"choice":"me"`,
		`"vec":[1,2,3]`, `"delay_ms":10`, `"first_byte_ms":20`,
		`"details":[{"key":"epoch","value":"1"}]`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
}
