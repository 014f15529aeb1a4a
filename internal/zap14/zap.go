// Package zap stands in for github.com/blevesearch/zapx/v14, as internal/zap11 does for version 11.
package zap

import zap "github.com/blevesearch/zapx/v11"

// ZapPlugin is the format with no more than its name.
type ZapPlugin struct{ zap.ZapPlugin }

// Version returns the version of the format.
func (*ZapPlugin) Version() uint32 { return 14 }
