// Package otlp sends spans, which say what a peer did and how long it took, to a collector of
// OpenTelemetry: as JSON over HTTP, by version 1 of its protocol.
//
// Callers create an Exporter, run it, and Add spans that have ended. Add never waits: while the
// collector is slow, spans are lost, and their number is logged.
//
// OpenTelemetry's own SDK is not used: with its exporter over HTTP it makes the program larger by
// several megabytes, most of it gRPC, and it offers little that is needed for spans that are
// complete when they are reported. The package imports no other one of peerd.
package otlp
