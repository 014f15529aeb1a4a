// Package rapidtest makes random tests short by default. A test package that uses
// pgregory.net/rapid imports it for its effect: a property is checked with 30 cases, not rapid's
// 100. The environment variable RAPID_CHECKS and the flag -rapid.checks still decide if given;
// .ci/run asks for 100. The garbage collector runs more rarely, unless the environment variable
// GOGC is set: tests have small heaps, and it took a sixth of their processor time.
package rapidtest

import (
	"flag"
	"os"
	"runtime/debug"

	_ "pgregory.net/rapid" // declares the flag in its own init, which runs before that below
)

// checks is the number of cases unless another is asked for.
const checks = "30"

// garbage is the percentage by which the heap grows before garbage is collected.
const garbage = 400

func init() {
	if _, asked := os.LookupEnv("GOGC"); !asked {
		debug.SetGCPercent(garbage)
	}
	if _, asked := os.LookupEnv("RAPID_CHECKS"); asked {
		return
	}
	if err := flag.Set("rapid.checks", checks); err != nil {
		panic(err)
	}
}
