package wan

import (
	"bytes"
	"compress/gzip"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestLoadMatrixReadsTheFormsFoundOutThere(t *testing.T) {
	want := [][]time.Duration{
		{0, 10 * time.Millisecond, 2500 * time.Microsecond},
		{10 * time.Millisecond, 0, -1},
		{2500 * time.Microsecond, -1, 0},
	}
	for _, c := range []struct {
		name, text string
		names      []string
	}{
		{"bare", "# RTT ms\n0\t10\t2.5\n10\t0\t-1\n2.5\t-1\t0\n", nil},
		{"labels", "# labels\ta b\tc\td\n0\t10\t2.5\n10\t0\t-1\n2.5\t-1\t0\n",
			[]string{"a b", "c", "d"}},
		{"header", "a,b,c\n0,10,2.5\n10,0,\n2.5,nan,0\n", []string{"a", "b", "c"}},
		{"both", "\ta\tb\tc\na\t0\t10\t2.5\nb\t10\t0\t-\nc\t2.5\t-1\t0\n", []string{"a", "b", "c"}},
		{"column", "x 0 10 2.5\r\n\r\ny 10 0 -1\r\nz 2.5 -1 0\r\n", []string{"x", "y", "z"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, zipped := range []bool{false, true} {
				text := []byte(c.text)
				if zipped {
					text = gz(text)
				}
				names, rtt, err := LoadMatrix(bytes.NewReader(text))
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(names, c.names) ||
					!slices.EqualFunc(rtt, want, slices.Equal[[]time.Duration]) {
					t.Errorf("%q %v", names, rtt)
				}
			}
		})
	}
}

func gz(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(b)
	z.Close()
	return out.Bytes()
}

func TestLoadMatrixRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":     "# only this\n",
		"not square":  "0\t1\n1\t0\n2\t2\n",
		"ragged":      "0\t1\t2\n1\t0\n2\t2\t0\n",
		"words":       "0\t1\nx\ty\n",
		"half named":  "a 0 1\n1 0\n",
		"names":       "# labels\ta\tb\tc\n0\t1\n1\t0\n",
		"too far":     "0\t1e9\n1\t0\n",
		"broken gzip": "\x1f\x8bnonsense",
	} {
		if _, _, err := LoadMatrix(strings.NewReader(text)); !errors.Is(err, ErrMatrix) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFromMatrixFillsHoles(t *testing.T) {
	ms := time.Millisecond
	w, err := FromMatrix(nil, [][]time.Duration{
		{0, 10 * ms, 20 * ms},
		{14 * ms, 3 * ms, -1},
		{-1, -1, 0},
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		a, b int
		want time.Duration
	}{{0, 1, 12 * ms}, {0, 2, 20 * ms}, {1, 2, 32 * ms}, {1, 1, 3 * ms}, {2, 2, sameSite}} {
		if got := w.Link(c.a, c.b).RTT; got != c.want {
			t.Errorf("%d to %d is %v, want %v", c.a, c.b, got, c.want)
		}
	}
	if twice := w.Select([]int{0, 1, 1}); twice.Link(0, 1).RTT != 12*ms ||
		twice.Link(0, 2).RTT <= 12*ms {
		t.Error("want no last mile for the first use of a row, one for a repetition")
	}
	_, err = FromMatrix(nil, [][]time.Duration{{0, -1}, {-1, 0}}, 1)
	if !errors.Is(err, ErrMatrix) {
		t.Errorf("disconnected matrix: err = %v", err)
	}
}

// Each matrix that is read without an error gives a world or a disconnection error.
func FuzzLoadMatrix(f *testing.F) {
	f.Add([]byte("0\t10\t2.5\n10\t0\t-1\n2.5\t-1\t0\n"))
	f.Add([]byte(",a,b\na,0,1\nb,1,0\n"))
	f.Add(gz([]byte("0 1\n1 0\n")))
	f.Fuzz(func(t *testing.T, text []byte) {
		names, rtt, err := LoadMatrix(bytes.NewReader(text))
		if err != nil {
			return
		}
		w, err := FromMatrix(names, rtt, 1)
		if err != nil {
			if !errors.Is(err, ErrMatrix) {
				t.Fatal(err)
			}
			return
		}
		if l := w.Link(0, w.Len()-1); l.RTT < 0 || l != w.Link(w.Len()-1, 0) {
			t.Fatalf("%+v", l)
		}
	})
}
