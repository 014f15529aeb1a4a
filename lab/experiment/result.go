package experiment

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"

	"peerd/node/config"
)

// Result is the result of one run. It has no time of day and no duration, so that equal runs
// have equal results.
type Result struct {
	Name   string     `json:"name"`
	Title  string     `json:"title"`
	Source string     `json:"source"`
	Params resultArgs `json:"params"`
	Data   []dataFile `json:"data"`
	Tables []*Table   `json:"tables"`
	Claims []Claim    `json:"claims"`
	Notes  []string   `json:"notes"`
	Plots  []Plot     `json:"-"`

	cmd string // Experiment.Command
}

// resultArgs is the form of Params in results.json. Its keys are the names of the flags. It has
// no paths, because results of different machines are compared.
type resultArgs struct {
	Seed      uint64    `json:"seed"`
	Seeds     int       `json:"seeds,omitempty"`
	Peers     int       `json:"peers,omitempty"`
	Sites     int       `json:"sites,omitempty"`
	Rounds    int       `json:"rounds,omitempty"`
	K         []int     `json:"k,omitempty"`
	Threshold []float64 `json:"threshold,omitempty"`
	Matrix    string    `json:"matrix,omitempty"`
	Times     string    `json:"times,omitempty"`
	World     []string  `json:"world,omitempty"`
	DelayMS   float64   `json:"delay_ms,omitempty"`
	RTTs      float64   `json:"rtts,omitempty"`
	Quick     bool      `json:"quick,omitempty"`
	Intervals bool      `json:"intervals,omitempty"`
}

// dataFile identifies a data file by its content.
type dataFile struct {
	File   string `json:"file"` // without directory
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Table is a list of rows of one type.
type Table struct {
	Name    string   `json:"name"`
	Columns []string `json:"columns"`
	Rows    []Row    `json:"rows"`
}

// Claim is a figure of the source, compared with ours.
type Claim struct {
	Source string `json:"source"`
	Want   string `json:"want"`
	Got    string `json:"got"`
	Holds  bool   `json:"holds"`
}

// Row is one row: a JSON object with its keys in order.
type Row []Cell

// Cell is one value of a row: a string, number, bool, or list of these; nil for a number that
// is not finite.
type Cell struct {
	Name  string
	Value any
}

// MarshalJSON writes r as an object.
func (r Row) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, c := range r {
		if i > 0 {
			b.WriteByte(',')
		}
		for j, v := range []any{c.Name, c.Value} {
			if j > 0 {
				b.WriteByte(':')
			}
			enc := json.NewEncoder(&b)
			enc.SetEscapeHTML(false)
			if err := enc.Encode(v); err != nil {
				return nil, err
			}
			b.Truncate(b.Len() - 1) // the newline
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// rowOf converts a struct to a Row by its json tags. The fields of embedded structs are treated
// as its own.
func rowOf(v any) (Row, error) {
	s := reflect.Indirect(reflect.ValueOf(v))
	if s.Kind() != reflect.Struct {
		return nil, fmt.Errorf("experiment: a row is a %T, want a struct", v)
	}
	var row Row
	for i := range s.NumField() {
		f := s.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			inner, err := rowOf(s.Field(i).Interface())
			if err != nil {
				return nil, err
			}
			row = append(row, inner...)
			continue
		case !f.IsExported() || name == "-":
			continue
		case name == "":
			name = f.Name
		}
		value := s.Field(i)
		if value.Kind() == reflect.Pointer {
			if value.IsNil() {
				row = append(row, Cell{name, nil})
				continue
			}
			value = value.Elem()
		}
		if k := value.Kind(); (k == reflect.Float64 || k == reflect.Float32) &&
			!finite(value.Float()) {
			row = append(row, Cell{name, nil})
			continue
		}
		if _, err := json.Marshal(value.Interface()); err != nil {
			return nil, fmt.Errorf("experiment: %s of a %T: %w", name, v, err)
		}
		row = append(row, Cell{name, value.Interface()})
	}
	return row, nil
}

func newResult(r Run) *Result {
	p := r.Params
	args := resultArgs{
		Seed: p.Seed, Seeds: p.Seeds, Peers: p.Peers, Sites: p.Sites, Rounds: p.Rounds, K: p.K,
		Threshold: p.Threshold,
		DelayMS:   p.DelayMS, RTTs: p.RTTs, Quick: p.Quick, Intervals: p.Intervals,
	}
	base := func(name string) string {
		if name == "" {
			return ""
		}
		return filepath.Base(name)
	}
	args.Matrix, args.Times = base(p.Matrix), base(p.Times)
	for _, w := range p.World {
		args.World = append(args.World, base(w))
	}
	return &Result{
		Name: r.Experiment.Name, Title: r.Experiment.Title, Source: r.Experiment.Source,
		Params: args, cmd: r.Experiment.Command,
		Data: []dataFile{}, Tables: []*Table{}, Claims: []Claim{}, Notes: []string{},
	}
}

// addData records the data files.
func (r *Result) addData(files []string) error {
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		h := sha256.New()
		n, err := io.Copy(h, f)
		f.Close()
		if err != nil {
			return err
		}
		r.Data = append(r.Data, dataFile{filepath.Base(name), n, hex.EncodeToString(h.Sum(nil))})
	}
	return nil
}

// command returns the command line that repeats r.
func (r *Result) command() string {
	if r.cmd != "" {
		return r.cmd
	}
	c := []string{"peerd-lab run", r.Name}
	add := func(set bool, format string, args ...any) {
		if set {
			c = append(c, fmt.Sprintf(format, args...))
		}
	}
	list := func(v any) string {
		return strings.ReplaceAll(strings.Trim(fmt.Sprint(v), "[]"), " ", ",")
	}
	p := r.Params
	add(p.Matrix != "", "--matrix %s", p.Matrix)
	add(p.Times != "", "--times %s", p.Times)
	for _, w := range p.World {
		add(true, "--world %s", w)
	}
	add(true, "--seed %d", p.Seed)
	add(p.Seeds > 0, "--seeds %d", p.Seeds)
	add(p.Peers > 0, "--peers %d", p.Peers)
	add(p.Sites > 0, "--sites %d", p.Sites)
	add(p.Rounds > 0, "--rounds %d", p.Rounds)
	add(len(p.K) > 0, "--k %s", list(p.K))
	add(len(p.Threshold) > 0, "--threshold %s", list(p.Threshold))
	add(p.DelayMS > 0, "--delay-ms %v", p.DelayMS)
	add(p.RTTs > 0, "--rtts %v", p.RTTs)
	add(p.Quick, "--quick")
	add(p.Intervals, "--intervals")
	return strings.Join(c, " ")
}

// versions identifies the programs that produced a result.
type versions struct {
	Peerd string `json:"peerd"`
	Go    string `json:"go"`
}

func theVersions() versions { return versions{config.Version, runtime.Version()} }

// collector is the Out of a run.
type collector struct {
	res      *Result
	stream   func(Row)
	progress func(float64, string)
	err      error // the first error
}

// Row adds a row to a table, which its first row creates.
func (c *collector) Row(table string, row any) {
	r, err := rowOf(row)
	if err != nil {
		c.fail(err)
		return
	}
	for i, t := range c.res.Tables {
		if t.Name != table {
			continue
		}
		if len(r) != len(t.Columns) {
			c.fail(fmt.Errorf("experiment: table %s has %d columns, a row %d", table,
				len(t.Columns),
				len(r)))
			return
		}
		for j := range r {
			if r[j].Name != t.Columns[j] {
				c.fail(fmt.Errorf("experiment: table %s has a column %s, a row has %s there", table,
					t.Columns[j], r[j].Name))
				return
			}
		}
		t.Rows = append(t.Rows, r)
		c.tell(i, r)
		return
	}
	t := &Table{Name: table, Rows: []Row{r}}
	for _, cell := range r {
		t.Columns = append(t.Columns, cell.Name)
	}
	c.res.Tables = append(c.res.Tables, t)
	c.tell(len(c.res.Tables)-1, r)
}

// tell streams the rows of the first table.
func (c *collector) tell(table int, r Row) {
	if table == 0 && c.stream != nil {
		c.stream(r)
	}
}

func (c *collector) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

func (c *collector) Plot(p Plot) { c.res.Plots = append(c.res.Plots, p) }

func (c *collector) Claim(source, want, got string, holds bool) {
	c.res.Claims = append(c.res.Claims, Claim{source, want, got, holds})
}

func (c *collector) Note(format string, args ...any) {
	c.res.Notes = append(c.res.Notes, fmt.Sprintf(format, args...))
}

func (c *collector) Progress(share float64, what string) {
	if c.progress != nil {
		c.progress(min(max(share, 0), 1), what)
	}
}
