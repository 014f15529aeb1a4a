// Command arrow prints the rows of Parquet files as JSON, one a line after the name of the file. It
// reads them with the library of Apache Arrow, which has nothing in common with the one that writes
// them, and is a module of its own so that peerd does not depend on that.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

func main() {
	for _, name := range os.Args[1:] {
		if err := show(name); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			os.Exit(1)
		}
	}
}

func show(name string) error {
	f, err := file.OpenParquetFile(name, false)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{BatchSize: 1000},
		memory.DefaultAllocator)
	if err != nil {
		return err
	}
	batches, err := r.GetRecordReader(context.Background(), nil, nil)
	if err != nil {
		return err
	}
	defer batches.Release()
	fmt.Println(filepath.Base(name), f.NumRows())
	for batches.Next() {
		text, err := batches.RecordBatch().MarshalJSON()
		if err != nil {
			return err
		}
		fmt.Printf("%s\n", text)
	}
	return nil
}
