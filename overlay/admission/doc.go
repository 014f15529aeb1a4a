// Package admission decides which peers belong to a network, and how a new peer joins one.
//
// [Rules] come from the profile. In an open network every peer with the profile belongs to it. In
// an invite or closed network a peer belongs to it if it is a founder, or has a [Membership]: a
// certificate about it that a founder has signed. In a closed network the certificate names the
// peer before it has asked.
//
// A [Gate] is the host of all protocols of a network. On a new connection both peers show their
// memberships. Before that, and after a refusal, no stream of any protocol is opened to the other
// peer, and none of it is served.
//
// An [Invitation] is signed by a founder and counted by it: its [Issuer] gives each of a bounded
// number of peers a certificate, until it expires. A [Door] answers new peers, with the profile
// and, for an invitation, the certificate; [Ask] is the other side.
//
// This package imports overlay/wire and overlay/record.
// docs/protocol/admission.md describes the messages.
package admission
