// Package waittest is for packages with tests that wait in real time.
package waittest

import "flag"

// atOnce is how many parallel tests of a package run at a time, whatever the number of cores.
const atOnce = "16"

// Parallel lets many parallel tests run at a time: they wait for timers and sockets rather than
// for a core. TestMain calls it before it runs the tests. The flag -parallel of the go command
// decides if given.
func Parallel() {
	if err := flag.Set("test.parallel", atOnce); err != nil {
		panic(err) // the flag is declared before TestMain is called
	}
	flag.Parse()
}
