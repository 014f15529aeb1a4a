package experiment

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

type toyRow struct {
	Name string  `json:"name"`
	X    float64 `json:"x"`
	N    int     `json:"n"`
}

// toy is an experiment with texts that need escaping in all formats.
var toy = Experiment{
	Name: "toy", Title: "a <b> & \"c\"", Source: "nowhere", Needs: []string{"times|matrix"},
	Run: func(_ context.Context, p Params, out Out) error {
		out.Row("rows", toyRow{"=1+1", 1.5, int(p.Seed)})
		out.Row("rows", toyRow{`comma, "quote"` + "\nline", math.NaN(), 2})
		out.Row("other/../table", struct {
			Z []int `json:"z"`
		}{[]int{1}})
		out.Plot(Plot{Name: "p", Title: "<script>alert(1)</script>", X: "x & y", LogY: true,
			Series: []Series{
				{Name: "a<b", X: []float64{1, 2, 3}, Y: []float64{0, 1, 10}},
				{Name: "dots", X: []float64{math.NaN(), 2}, Y: []float64{1, 5}, Points: true},
				{Name: "none"},
			}})
		out.Claim("<i>", "1 %", "2 %", false)
		out.Note("seed %d <br>", p.Seed)
		out.Progress(0.5, "half")
		return nil
	},
}

func toyRun(t *testing.T, seed uint64) Run {
	t.Helper()
	file := filepath.Join(t.TempDir(), "m.tsv")
	if err := os.WriteFile(file, []byte("0 1\n1 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return Run{toy, Params{Seed: seed, Matrix: file}}
}

func do(t *testing.T, r Run) *Result {
	t.Helper()
	res, err := r.Do(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestEqualRunsGiveEqualBytes(t *testing.T) {
	var texts [][]outFile
	for range 2 {
		files, err := render([]*Result{do(t, toyRun(t, 3)), do(t, toyRun(t, 3))})
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, files)
	}
	names := map[string]bool{}
	for i, f := range texts[0] {
		if names[f.name] {
			t.Errorf("two files have the name %s", f.name)
		}
		names[f.name] = true
		if !bytes.Equal(f.text, texts[1][i].text) {
			t.Errorf("%s differs between equal runs", f.name)
		}
		if f.name != filepath.Base(f.name) || strings.Contains(f.name, "/") {
			t.Errorf("file name %q is not plain", f.name)
		}
	}
	for _, want := range []string{"results.json", "report.html", "toy.rows.csv", "toy.p.svg",
		"toy-2.rows.csv", "toy-2.p.svg"} {
		if !names[want] {
			t.Errorf("files are %v, want %s among them", names, want)
		}
	}
}

func TestResultsJSON(t *testing.T) {
	text, err := resultsJSON([]*Result{do(t, toyRun(t, 7))})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Versions versions
		Runs     []struct {
			Name   string
			Params map[string]any
			Data   []dataFile
			Tables []struct {
				Name    string
				Columns []string
				Rows    []map[string]any
			}
			Claims []Claim
			Notes  []string
		}
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	r := got.Runs[0]
	if got.Versions != theVersions() || r.Params["seed"] != 7.0 || r.Params["matrix"] != "m.tsv" ||
		len(r.Data) != 1 || r.Data[0].Bytes != 8 {
		t.Errorf("%s", text)
	}
	rows := r.Tables[0].Rows
	if len(rows) != 2 || rows[0]["x"] != 1.5 || rows[1]["x"] != nil || rows[0]["n"] != 7.0 {
		t.Errorf("rows %v", rows)
	}
	if len(r.Claims) != 1 || r.Claims[0].Holds || r.Claims[0].Want != "1 %" || len(r.Notes) != 1 {
		t.Errorf("%+v", r)
	}
}

func TestCSVIsReadBack(t *testing.T) {
	res := do(t, toyRun(t, 1))
	text, err := res.Tables[0].csv()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{{"name", "x", "n"}, {"'=1+1", "1.5", "1"}, {"comma, \"quote\"\nline", "",
		"2"}}
	for i := range want {
		if strings.Join(rows[i], "|") != strings.Join(want[i], "|") {
			t.Errorf("row %d is %q, want %q", i, rows[i], want[i])
		}
	}
}

func TestPageEscapes(t *testing.T) {
	files, err := render([]*Result{do(t, toyRun(t, 1))})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.name, ".html") && !strings.HasSuffix(f.name, ".svg") {
			continue
		}
		text := string(f.text)
		for _, bad := range []string{"<script", "<b>", "a<b", "<br>", "<i>",
			"<?xml version=\"1.0\"?>\n<figure"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s contains %q", f.name, bad)
			}
		}
		if strings.HasSuffix(f.name, ".html") {
			for _, want := range []string{"<svg", "does not hold",
				"peerd-lab run toy --matrix m.tsv --seed 1", "a &lt;b&gt;"} {
				if !strings.Contains(text, want) {
					t.Errorf("%s lacks %q", f.name, want)
				}
			}
			if strings.Contains(text, "http://") && strings.Contains(text, "<link") ||
				strings.Contains(text, "src=") {
				t.Error("the page refers to other files")
			}
		}
	}
}

func TestStreamIsTheFirstTable(t *testing.T) {
	var lines []string
	_, err := toyRun(t, 1).Do(t.Context(), func(r Row) {
		text, err := json.Marshal(r)
		if err != nil {
			t.Error(err)
		}
		lines = append(lines, string(text))
	}, nil)
	if err != nil || len(lines) != 2 || lines[0] != `{"name":"=1+1","x":1.5,"n":1}` {
		t.Errorf("%v, %v", lines, err)
	}
}

func TestBadRows(t *testing.T) {
	for name, rows := range map[string][]any{
		"no struct":      {3},
		"other columns":  {toyRow{}, struct{ A int }{1}},
		"no JSON for it": {struct{ F func() }{}},
	} {
		bad := Experiment{Name: "bad", Run: func(_ context.Context, _ Params, out Out) error {
			for _, r := range rows {
				out.Row("t", r)
			}
			return nil
		}}
		if _, err := (Run{bad, Params{}}).Do(t.Context(), nil, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		p    Params
		want string
	}{
		"nothing given": {Params{}, "toy needs --times FILE or --matrix FILE"},
		"no such file":  {Params{Matrix: filepath.Join(dir, "none")}, "no such file"},
		"a directory":   {Params{Matrix: dir}, "is a directory"},
		"seeds":         {Params{Matrix: dir, Seeds: -1}, "--seeds is -1"},
		"k":             {Params{Matrix: dir, K: []int{4, 0}}, "--k is 0"},
		"threshold": {Params{Matrix: dir, Threshold: []float64{math.NaN()}},
			"--threshold is NaN"},
		"delay":          {Params{Matrix: dir, DelayMS: -2}, "--delay-ms is -2"},
		"rtts, infinite": {Params{Matrix: dir, RTTs: math.Inf(1)}, "--rtts is +Inf"},
	} {
		err := Run{toy, c.p}.Check()
		if !errors.Is(err, ErrParams) || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestParseRuns(t *testing.T) {
	all := []Experiment{toy}
	runs, err := parseRuns(all, "dir/runs.toml", []byte(`
[[run]]
experiment = "toy"
matrix = "m.tsv"
world = ["/abs/a", "b"]
k = [4, 8]
threshold = [25, 50.5]
delay_ms = 150
[[run]]
experiment = "toy"
quick = true
`))
	if err != nil {
		t.Fatal(err)
	}
	p := runs[0].Params
	if len(runs) != 2 || p.Matrix != "dir/m.tsv" || p.World[0] != "/abs/a" ||
		p.World[1] != "dir/b" || p.K[1] != 8 ||
		p.Threshold[1] != 50.5 || p.DelayMS != 150 || !runs[1].Params.Quick {
		t.Errorf("%+v", runs)
	}
	for name, c := range map[string]struct{ text, want string }{
		"unknown key": {"[[run]]\nexperiment = \"toy\"\npears = 3\n",
			`runs.toml:3:1: unknown key "run.pears"`},
		"unknown table": {"[[ran]]\n", `unknown key "ran"`},
		"wrong type":    {"[[run]]\nexperiment = \"toy\"\npeers = \"many\"\n", "runs.toml:3:"},
		"no TOML":       {"[[run\n", "runs.toml:1:"},
		"empty":         {"", "no runs"},
		"no name":       {"[[run]]\npeers = 3\n", "run 1 has no key experiment"},
		"unknown experiment": {"[[run]]\nexperiment = \"toys\"\n",
			`no experiment is called "toys", did you mean toy`},
		"out of range": {"[[run]]\nexperiment = \"toy\"\nseeds = -3\n", "--seeds is -3"},
	} {
		_, err := parseRuns(all, "runs.toml", []byte(c.text))
		if !errors.Is(err, ErrParams) || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func FuzzParseRuns(f *testing.F) {
	f.Add([]byte("[[run]]\nexperiment = \"toy\"\nk = [1]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		runs, err := parseRuns([]Experiment{toy}, "f", text)
		if (err == nil) == (len(runs) == 0) || err != nil && (!errors.Is(err, ErrParams) ||
			strings.Contains(err.Error(), "\n")) {
			t.Errorf("%d runs, %v", len(runs), err)
		}
	})
}

func TestProgress(t *testing.T) {
	var b bytes.Buffer
	now := time.Unix(0, 0)
	p := NewProgress(&b)
	p.now = func() time.Time { return now }
	p.Begin("toy")
	for range 11 {
		now = now.Add(time.Second)
		p.Show(0.5, "half\x1b[2J")
	}
	p.End("done")
	want := "toy:  50 %, 5s, half\ufffd[2J\ntoy:  50 %, 10s, half\ufffd[2J\ntoy: done, 11.0 s, " +
		"half\ufffd[2J\n"
	if b.String() != want {
		t.Errorf("got %q", b.String())
	}
}
