// Package estimate lets an owner have one URL of its subnet fetched by another
// peer, whose download time is a sample for the server's proxy coordinate
// (Malet 2009, 3.1.2). It owns the protocol; who asks whom is room owner's
// matter, the fetch itself room crawl's. It may import store and its sibling
// packages lease and wire.
//
//	owner                              estimator
//	  ask{lease, request}  ----------->  checks the lease, fetches, stores
//	  <-----------  answer{refused | report}
//
// The owner keeps the server's politeness clock. It must therefore know
// whether a request was sent: a refusal says that none was (ErrNotSent), and
// everything else that is no report leaves it open (ErrLost).
//
// Files: messages.go the frames and their checks; estimate.go both sides.
package estimate
