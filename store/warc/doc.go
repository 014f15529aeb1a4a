// Package warc stores HTTP exchanges byte for byte in WARC 1.1 files (ISO 28500:2017),
// with a CDXJ index beside each file, so that common tools can read the archive. It
// imports no other package of peerd.
//
// An Archive is a directory that one process has open for writing. Append returns when
// the operating system has the data: after kill -9 nothing that was appended is lost. A
// power failure may lose what was appended after the last Sync. Open repairs the archive
// after a crash: it truncates an incomplete record at the end of a file and finishes
// files left by another process; it never continues them.
//
// A Reader reads an archive, even while another process writes it. Files may come from
// anywhere: memory use is limited, and damaged records are reported as ErrCorrupt.
//
// The files on disk are described in docs/protocol/archive.md.
package warc
