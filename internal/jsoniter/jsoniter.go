// Package jsoniter stands in for github.com/json-iterator/go, by a replace directive in go.mod.
// Only the shapes of package github.com/blevesearch/geo use that module, and peerd searches no
// shapes. It looks up methods by name, which makes the linker keep every exported method: the
// program was 9 MB larger. The original has had no release since 2021.
package jsoniter

import "encoding/json"

// API encodes and decodes as package encoding/json does.
type API struct{}

// ConfigCompatibleWithStandardLibrary is the only configuration.
var ConfigCompatibleWithStandardLibrary API

// Marshal is json.Marshal.
func (API) Marshal(v any) ([]byte, error) { return json.Marshal(v) }

// Unmarshal is json.Unmarshal.
func (API) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }
