package ownership_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"peerd/overlay/ownership"
)

var update = flag.Bool("update", false, "rewrite the table in docs/protocol")

// TestTable compares the table in the documentation with the machine.
func TestTable(t *testing.T) {
	const file = "../../docs/protocol/ownership-machine.md"
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	begin, rest, _ := strings.Cut(string(raw), "<!-- table -->\n")
	_, end, ok := strings.Cut(rest, "<!-- end of table -->\n")
	if !ok {
		t.Fatalf("%s has no marks for the table", file)
	}
	want := begin + "<!-- table -->\n" + ownership.Table() + "<!-- end of table -->\n" + end
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(raw) != want {
		t.Errorf("%s is out of date: go test ./overlay/ownership -run Table -args -update", file)
	}
}
