// Package carry moves one host with everything its owner knows about it - queue,
// URL-seen, visits, robots.txt, state, politeness clock - to the owner of another
// subnet, because its addresses have left the one that was its home.
//
//	owner O of the old home                  owner N of the new home
//	  Offer{host, home record n+1}  ------->   ours? valid? makes room
//	  <-------  Reply{ok | refused | done}
//	  Chunk{robots, state, queue, seen, visits} ... -> stores as it comes
//	  Chunk{last}                   ------->   record of the host on disk: N's now
//	  <-------  Reply{done}
//	  O: publishes the home record, forgets its copy
//
// O has stopped fetching from the host before it begins, and does so no more: what
// breaks off is begun again, and N answers "done" if it has the host already. Until
// the last chunk N's copy is rubbish, that the next Offer or Sweep takes away. If N
// has the host by other ways - a rescue - what comes is merged: URLs that N never saw
// are queued, then the seen-set is joined.
//
// The package may import store and its siblings home and wire.
//
// Files: messages.go the frames and their checks; send.go O's side; receive.go N's.
package carry
