package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/google/renameio/v2"
	"github.com/parquet-go/parquet-go"
	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
)

// groupRows is the number of rows that are in memory at a time.
const groupRows = 250_000

// An arc is a link from one page to another.
type arc struct {
	Source string `parquet:"source,dict,zstd"`
	Target string `parquet:"target,dict,zstd"`
}

func newParquetCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "parquet --output FILE [GRAPH.csv]",
		Short: "Convert a link graph to Parquet",
		Long: `Converts what "peerd export graph" writes, from a file or from standard input, to a
Parquet file with the columns source and target. It is a command of its own, so that peerd
does not grow by the library:

  peerd export graph | peerd-lab parquet --output links.parquet`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.Usagef(cmd, "want at most one file")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return cli.Usagef(cmd, "--output is missing")
			}
			in := cmd.InOrStdin()
			if len(args) == 1 && args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer f.Close()
				in = f
			}
			p, err := renameio.NewPendingFile(out, renameio.WithPermissions(0o644))
			if err != nil {
				return err
			}
			defer p.Cleanup()
			if err := toParquet(p, in); err != nil {
				return err
			}
			return p.CloseAtomicallyReplace()
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "`file` to write")
	return cmd
}

// toParquet converts CSV with the columns source and target.
func toParquet(w io.Writer, r io.Reader) error {
	rows := csv.NewReader(r)
	rows.FieldsPerRecord, rows.ReuseRecord = 2, true
	head, err := rows.Read()
	if err != nil || !slices.Equal(head, []string{"source", "target"}) {
		return errors.Join(fmt.Errorf("the first line is %q, want source,target", head), err)
	}
	out := parquet.NewGenericWriter[arc](w, parquet.MaxRowsPerRowGroup(groupRows))
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return out.Close()
		}
		if err != nil {
			return err
		}
		if _, err := out.Write([]arc{{row[0], row[1]}}); err != nil {
			return err
		}
	}
}
