package crawllet

import (
	"encoding/hex"
	"encoding/json"
	"io"

	"peerd/crawl/crawllet/record"
)

// Lines writes records as JSON lines, with the bodies in base64.
type Lines struct{ enc *json.Encoder }

// NewLines returns a target that writes to w.
func NewLines(w io.Writer) *Lines {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return &Lines{enc}
}

// Write implements Target.
func (l *Lines) Write(r record.Record) error {
	return l.enc.Encode(struct {
		record.Record
		Digest string `json:"digest,omitempty"`
	}{r, hex.EncodeToString(r.Digest)})
}
