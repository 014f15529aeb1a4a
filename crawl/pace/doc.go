// Package pace says how long to leave a server alone after a request, from how
// long its answers take. It imports the standard library only; it has no
// clock, no network and no store.
//
// The pause is a multiple of the download time (Mercator, Heydon and Najork
// 1999, section 3.2: ten times; Malet 2009, section 2.1.2, calls it 10κ). So a
// server far away or busy is asked less often.
//
// It is longer still when a server has become slower than it used to be while
// others have not: then the server is overloaded, and not our own line. That is
// what one peer can see of a server "moving away from all peers" (Malet 2009,
// section 5.1.3), and it can be acted upon at once.
package pace
