// Package runner runs an experiment with many peers on machines that are reached by a command, as
// ssh, sh -c or docker exec, and nothing else: there is no agent on the machines. What is done
// there are scripts of the POSIX shell.
//
// A runner takes all machines through the same phases: check, distribute the program, create
// homes, join, start, seed, follow the scenario, stop, collect, clean up. A phase takes a machine
// from one State to the next one. It has a time limit for each machine; a machine that fails, or
// does not answer in time, is LeftOut with the reason, and all others go on.
//
// All state is in state.json. It is replaced before anything is done that must not be done twice,
// and after each phase of each machine, so that a runner continues after its own kill -9 where it
// was. Every start of a process has a number, and the process creates a directory of that number
// first, or ends if it exists: a second start of the same number does nothing.
//
// Files: file.go the description of an experiment; machine.go a Machine and the protocol with its
// shell; script.go all scripts; state.go State and state.json; run.go the phases; check.go limits
// of machines; spread.go distribution; setup.go homes, network, start, seeds; scenario.go steps
// and looks; collect.go the end; report.go judging and reporting.
package runner
