// Package zap stands in for github.com/blevesearch/zapx/v11, by a replace directive in go.mod: a
// format of index files that peerd has never written. Package scorch of bleve links the code of
// seven such formats, each of which makes the program some 200 kB larger.
package zap

import (
	"errors"

	"github.com/RoaringBitmap/roaring/v2"
	index "github.com/blevesearch/bleve_index_api"
	segment "github.com/blevesearch/scorch_segment_api/v2"
)

var errFormat = errors.New("zap: this format of index files is not supported")

// ZapPlugin is the format with no more than its name.
type ZapPlugin struct{}

// Type returns the name of the format.
func (*ZapPlugin) Type() string { return "zap" }

// Version returns the version of the format.
func (*ZapPlugin) Version() uint32 { return 11 }

// New fails.
func (*ZapPlugin) New([]index.Document) (segment.Segment, uint64, error) {
	return nil, 0, errFormat
}

// NewUsing fails.
func (*ZapPlugin) NewUsing([]index.Document, map[string]any) (segment.Segment, uint64, error) {
	return nil, 0, errFormat
}

// Open fails.
func (*ZapPlugin) Open(string) (segment.Segment, error) { return nil, errFormat }

// OpenUsing fails.
func (*ZapPlugin) OpenUsing(string, map[string]any) (segment.Segment, error) {
	return nil, errFormat
}

// Merge fails.
func (*ZapPlugin) Merge([]segment.Segment, []*roaring.Bitmap, string, chan struct{},
	segment.StatsReporter,
) ([][]uint64, uint64, error) {
	return nil, 0, errFormat
}

// MergeUsing fails.
func (*ZapPlugin) MergeUsing([]segment.Segment, []*roaring.Bitmap, string, chan struct{},
	segment.StatsReporter, map[string]any,
) ([][]uint64, uint64, error) {
	return nil, 0, errFormat
}
