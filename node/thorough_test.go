//go:build !integration

package node

// bombStep is n if each protocol is sent every nth of the bombs.
const bombStep = 10

// mutationsEach is the default of -mutations.
const mutationsEach = 30
