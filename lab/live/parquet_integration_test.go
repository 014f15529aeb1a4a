//go:build integration

package live

import (
	"os/exec"
	"strings"
	"testing"
)

// Another reader than that of the library opens the files: pyarrow, which is Apache Arrow's.
func TestParquetIndependently(t *testing.T) {
	if err := exec.Command("python3", "-c", "import pyarrow.parquet").Run(); err != nil {
		t.Skip("needs python3 with pyarrow: pip install pyarrow")
	}
	dir := t.TempDir()
	if _, err := ExportParquet(dir, []string{small(t)}); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("python3", "-c", `
import glob, os, sys
import pyarrow.parquet as pq
for f in sorted(glob.glob(sys.argv[1] + "/*.parquet")):
    t = pq.read_table(f)
    print(os.path.basename(f), t.num_rows)
d = pq.read_table(sys.argv[1] + "/decision.parquet").to_pylist()[0]
print(d["choice"], d["candidates"][1]["at"]["vec"], d["proxy"]["delay_ms"], d["evidence"][0]["first_byte_ms"])
print(pq.read_table(sys.argv[1] + "/message.parquet").to_pylist()[0]["details"])
`, dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"page.parquet 2", "exchange.parquet 1",
		"me [1.0, 2.0, 3.0] 10.0 20.0", "[('epoch', '1')]"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
}
