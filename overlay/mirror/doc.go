// Package mirror keeps copies of the archives of some peers at others, byte for byte, so that the
// pages of a peer that does not answer can still be found.
//
// The owner of an archive chooses its mirrors, names each of them with a signature, and sends
// them what it archives (Sender). A mirror stores it in a folder for each owner, within limits
// (Keeper). It says what it has at the begin of a conversation, so the owner need not remember
// that, and a copy goes on from where it is. A file of which the end of the copied part has another
// digest, or which is shorter than its copy, is sent again from its begin.
//
// Guarantees: a copy of an archive changes only at the word of its owner, which the connection
// authenticates. No peer can show that it is the mirror of another one without having been
// named by it within MaxAge. All that is copied is within Keeper.Space, and half of that for one
// owner.
//
// Copies are not read here. Their files may have any contents: they are from other peers.
//
// docs/protocol/mirror.md describes the messages.
package mirror
