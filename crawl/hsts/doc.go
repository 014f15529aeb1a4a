// Package hsts remembers which hosts want to be fetched over TLS only (HTTP Strict Transport
// Security, RFC 6797).
//
// A Set is bounded: the hosts that were neither named nor asked for longest are forgotten first. It
// is in memory; its entries are stored by the caller, who gets every change. The caller must only
// pass fields that were received over TLS with a valid certificate.
//
// Of this module it imports only packages of internal.
package hsts
