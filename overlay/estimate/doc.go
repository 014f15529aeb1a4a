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
// The report has all links of the page, and the estimator routes none of them:
// they are in the owner's store, and its replicas', in the transaction that takes
// the page for done. An owner that did not hear the answer asks again and hears the
// same.
//
// The owner keeps the server's politeness clock. It must therefore know
// whether a request was sent: a refusal says that none was (ErrNotSent), and
// everything else that is no report leaves it open (ErrLost).
//
// A request may also be for a bare connection to the URL's server: it is opened
// and closed again, so that its time is a sample and nothing is fetched. How
// many of those a peer may ask for is limited.
//
// Files: messages.go the frames and their checks; estimate.go both sides.
package estimate
