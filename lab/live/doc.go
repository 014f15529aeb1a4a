// Package live evaluates the event logs of live peers (node/events): it aligns the clocks of
// several logs, merges them, converts them to Parquet, and draws the figures of Malet's chapter 5.
//
// # Clocks
//
// A question that A sent at s and B received at r, by their own clocks, shows that B's clock is
// ahead of A's by at most r - s, and an answer in the same way by at least a bound. Exchanges of
// coordinates give thousands of such bounds for each pair. [Align] divides the time into windows.
// In each it combines the bounds of all pairs, so that clocks are compared through others, too, by
// shortest paths. A bound of another time counts less exactly, by the drift that clocks may have.
// The result is an interval in which the difference of each clock to the reference certainly lies
// if no two clocks drift apart faster than that: its middle is used, and half of its width, with
// what the clock may drift until the next window, is the error bound of every event.
//
// The reference is the clock of the run with the most exchanges. Each run of a peer has a clock of
// its own, because only within a run a log does not show when the system clock is set.
//
// Files: align.go clocks; merge.go reading and merging logs; parquet.go conversion; figures.go,
// series.go and tables.go the figures.
package live
