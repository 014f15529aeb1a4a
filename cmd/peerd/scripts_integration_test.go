//go:build integration

package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// slow enables the tests that take minutes.
var slow = flag.Bool("slow", false, "run also the tests that take two to four minutes each")

func TestIntegrationScripts(t *testing.T) {
	runScripts(t, filepath.Join("testdata", "integration"),
		map[string]scriptCmd{"awaitapi": awaitAPI})
}

// awaitAPI waits for the api.json of a home and puts the address in it into a
// variable: awaitapi HOME VARIABLE.
func awaitAPI(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: awaitapi HOME VARIABLE")
	}
	file := ts.MkAbs(filepath.Join(args[0], "api.json"))
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for {
		var api struct{ Addr string }
		data, err := os.ReadFile(file)
		if err == nil {
			ts.Check(json.Unmarshal(data, &api))
			ts.Setenv(args[1], api.Addr)
			return
		}
		select {
		case <-tick.C:
		case <-late:
			ts.Fatalf("no peer came up: %v", err)
		}
	}
}
