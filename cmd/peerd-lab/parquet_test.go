package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// The arcs of a graph are read back from Parquet, from several row groups.
func TestToParquet(t *testing.T) {
	var in strings.Builder
	in.WriteString("source,target\n")
	const arcs = groupRows + 10
	for i := range arcs {
		fmt.Fprintf(&in, "http://a.example/%d,\"http://b.example/a,b%d\"\n", i/10, i)
	}
	var out bytes.Buffer
	if err := toParquet(&out, strings.NewReader(in.String())); err != nil {
		t.Fatal(err)
	}
	got, err := parquet.Read[arc](bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil || len(got) != arcs {
		t.Fatalf("%d arcs, %v, want %d", len(got), err, arcs)
	}
	for i, a := range got {
		want := arc{fmt.Sprintf("http://a.example/%d", i/10),
			fmt.Sprintf("http://b.example/a,b%d", i)}
		if a != want {
			t.Fatalf("arc %d = %v, want %v", i, a, want)
		}
	}
	if out.Len() > in.Len()/3 {
		t.Errorf("%d bytes, of %d as CSV", out.Len(), in.Len())
	}
	for _, bad := range []string{"", "url,x\na,b\n", "source,target\na\n"} {
		if err := toParquet(&bytes.Buffer{}, strings.NewReader(bad)); err == nil {
			t.Errorf("%q was converted", bad)
		}
	}
}
