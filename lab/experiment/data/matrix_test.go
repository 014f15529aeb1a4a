package data

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func gz(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(b)
	z.Close()
	return out.Bytes()
}

func TestReadMatrixForms(t *testing.T) {
	square := [][][]float64{{{0, 10, 2.5}, {10, 0, -1}, {2.5, -1, 0}}}
	two := [][][]float64{{{0, 10}, {11, 0}}, {{0, 12}, {-1, 0}}}
	for _, c := range []struct {
		name, text string
		names      []string
		want       [][][]float64
	}{
		{"bare", "# RTT ms\n0\t10\t2.5\n10\t0\t-1\n2.5\t-1\t0\n", nil, square},
		{"labels", "# labels\ta b\tc\td\n0\t10\t2.5\n10\t0\t-1\n2.5\t-1\t0\n",
			[]string{"a b", "c", "d"}, square},
		{"header", "a,b,c\n0,10,2.5\n10,0,\n2.5,nan,0\n", []string{"a", "b", "c"}, square},
		{"both", "\ta\tb\tc\na\t0\t10\t2.5\nb\t10\t0\t-\nc\t2.5\t-1\t0\n", []string{"a", "b", "c"},
			square},
		{"column", "x 0 10 2.5\r\n\r\ny 10 0 -1\r\nz 2.5 -7 0\r\n", []string{"x", "y", "z"},
			square},
		{"slices",
			"# slice row\n1\t0\t0\t10\n1\t1\t11\t0\n5\t0\t0\t12\n5\t1\t-1\t0\n" +
				"2\t0\t0\t10\n2\t1\t11\t0\n",
			nil, append(two, two[0])},
		{"slices from 1, with a header",
			"slice,row,a,b,c\n4,1,0,10,2.5\n4,2,10,0,-\n4,3,2.5,NA,0\n", []string{"a", "b", "c"},
			square},
		{"one slice", "1 0 0 10\n1 1 11 0\n", nil, two[:1]},
	} {
		for _, zipped := range []bool{false, true} {
			text := []byte(c.text)
			if zipped {
				text = gz(text)
			}
			m, err := ReadMatrix(bytes.NewReader(text))
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			if !slices.Equal(m.Names, c.names) || fmt.Sprint(m.Slices) != fmt.Sprint(c.want) {
				t.Errorf("%s: %q %v", c.name, m.Names, m.Slices)
			}
		}
	}
}

func TestReadMatrixErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "# only this\n", "no rows"},
		{"not square", "0\t1\n1\t0\n2\t2\n", "neither a square nor slices"},
		{"ragged", "0\t1\t2\n1\t0\n2\t2\t0\n", "line 2 has 2 values"},
		{"words", "0\t1\n1\ty\n", `line 2: "y" is not a round-trip`},
		{"half named", "a 0 1\n1 0\n", "1 of 2 rows have a name"},
		{"names", "# labels\ta\tb\tc\n0\t1\n1\t0\n", "3 names for 2"},
		{"too far", "0\t1\n1\t1e9\n", "line 2"},
		{"infinite", "0\t1\n1\tinf\n", "line 2"},
		{"broken gzip", "\x1f\x8bnonsense", "gzip"},
		{"cut gzip", string(gz([]byte(strings.Repeat("0 1\n1 0\n", 9)))[:20]), "EOF"},
		{"slices mixed", "1 0 0 1\n1 1 1 0\n2 0 0 1\n1 1 1 0\n3 0 0 1\n3 1 1 0\n",
			"line 4: slice 1 row 1, want slice 2 row 1"},
		{"slice twice", "1 0 0 1\n1 1 1 0\n1 0 0 1\n1 1 1 0\n2 0 0 1\n2 1 1 0\n",
			"line 3: slice 1 occurs twice"},
		{"rows from 2", "1 2 0 1\n1 3 1 0\n", "counted from 0 or 1"},
		{"a long line", strings.Repeat("1 ", maxMatrixLine), "line 1 is longer"},
	} {
		_, err := ReadMatrix(strings.NewReader(c.text))
		if !errors.Is(err, ErrMatrix) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := LoadMatrix(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("LoadMatrix() of no file = %v, want %v", err, os.ErrNotExist)
	}
	path := filepath.Join(t.TempDir(), "bad.tsv")
	if err := os.WriteFile(path, []byte("0 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadMatrix(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("LoadMatrix() = %v, want an error with the file's name", err)
	}
}

func TestMedianAndSample(t *testing.T) {
	m, err := ReadMatrix(strings.NewReader(
		"0 0 0 10 -1\n0 1 20 0 0\n0 2 -1 -1 0\n" + "1 0 0 30 -1\n1 1 20 0 7\n1 2 -1 -1 0\n" +
			"2 0 0 12 -1\n2 1 40 0 9\n2 2 -1 -1 0\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(m.Median()), "[[0 16 -1] [16 0 8] [-1 8 0]]"; got != want {
		t.Errorf("Median() = %s, want %s", got, want)
	}
	for _, c := range []struct {
		i, j, time int
		want       float64
		ok         bool
	}{
		{0, 1, 0, 10, true}, {1, 0, 2, 40, true}, {0, 1, 4, 30, true},
		{2, 1, 1, 7, true},   // the other direction
		{1, 2, 0, 7, true},   // the next time: zero is no measurement
		{0, 2, 0, -1, false}, // never
	} {
		if got, ok := m.Sample(c.i, c.j, c.time); got != c.want || ok != c.ok {
			t.Errorf("Sample(%d, %d, %d) = %v, %v, want %v, %v", c.i, c.j, c.time, got, ok,
				c.want, c.ok)
		}
	}
}

// All methods work on any matrix that was read without an error.
func FuzzReadMatrix(f *testing.F) {
	f.Add([]byte("0\t10\t2.5\n10\t0\t-1\n2.5\t-1\t0\n"))
	f.Add([]byte(",a,b\na,0,1\nb,1,0\n"))
	f.Add([]byte("1 0 0 10\n1 1 11 0\n2 0 0 1\n2 1 1 0\n"))
	f.Add(gz([]byte("0 1\n1 0\n")))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := ReadMatrix(bytes.NewReader(text))
		if err != nil {
			if !errors.Is(err, ErrMatrix) {
				t.Fatal(err)
			}
			return
		}
		n := m.Len()
		if n == 0 || m.Names != nil && len(m.Names) != n {
			t.Fatalf("%d nodes, names %q", n, m.Names)
		}
		for i, row := range m.Median() {
			for j, x := range row {
				ms, ok := m.Sample(i, j, 1)
				if len(row) != n || !(x == Missing || x >= 0) || i != j && ok != (x > 0) || ok &&
					!(ms > 0) {
					t.Fatalf("%d %d: median %v, sample %v %v", i, j, x, ms, ok)
				}
			}
		}
	})
}
