package live

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"peerd/node/events"
)

// ExportParquet writes the events of some logs to Parquet files in a directory, one for each kind,
// such as fetch.parquet. Columns have the names of the fields of docs/events.md, without kind. It
// returns the number of events by kind.
func ExportParquet(dir string, names []string) (counts map[events.Kind]int, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	files := map[reflect.Type]*parquetFile{}
	counts = map[events.Kind]int{}
	defer func() {
		for _, f := range files {
			err = errors.Join(err, f.close())
		}
	}()
	_, err = Each(names, func(e events.Event) error {
		t := reflect.TypeOf(e).Elem()
		f := files[t]
		if f == nil {
			if f, err = newParquetFile(dir, e.Head().Kind, t); err != nil {
				return err
			}
			files[t] = f
		}
		counts[e.Head().Kind]++
		return f.w.Write(e)
	})
	return counts, err
}

// parquetFile is a file of one kind of events.
type parquetFile struct {
	file *os.File
	w    *parquet.Writer //nolint:staticcheck // the others need the type of events when compiled
}

func newParquetFile(dir string, kind events.Kind, t reflect.Type) (*parquetFile, error) {
	var names []parquet.SchemaOption
	parquetNames(t, nil, &names)
	f, err := os.Create(filepath.Join(dir, string(kind)+".parquet"))
	if err != nil {
		return nil, err
	}
	return &parquetFile{f, parquet.NewWriter(f,
		parquet.SchemaOf(reflect.New(t).Interface(), names...), parquet.Compression(&zstd.Codec{}),
		parquet.KeyValueMetadata("peerd.events.schema", fmt.Sprint(events.Schema)))}, nil
}

func (f *parquetFile) close() error { return errors.Join(f.w.Close(), f.file.Close()) }

// parquetNames appends options that give the fields of a struct the names that they have in JSON.
func parquetNames(t reflect.Type, path []string, to *[]parquet.SchemaOption) {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			parquetNames(f.Type, path, to)
			continue
		case name == "kind":
			name = "-"
		}
		at := append(path[:len(path):len(path)], f.Name)
		*to = append(*to, parquet.StructTag(
			reflect.StructTag(fmt.Sprintf(`parquet:"%s"`, name)), at...))
		parquetNames(f.Type, append(path[:len(path):len(path)], name), to)
	}
}
