// Package search finds pages in the indexes of all peers of a network.
//
// A search asks all known peers at once, over one conversation each, in steps: in how many
// pages does each word occur, what are your best pages by the sums of all peers, and how do those
// of them look that are shown. So the order of the hits is that of one index of all pages. A peer
// that does not answer a step in time is left out from then on, and the result says so.
//
// What a peer answers is checked for form and range: it cannot exceed the highest score possible.
// It can still claim pages that it does not have, and a text that they do not contain, as in any
// open network. The messages are described in docs/protocol/search.md.
package search
