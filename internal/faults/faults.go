// Package faults collects what is wrong with a value, so that all of it is reported together. It
// imports nothing of this module.
package faults

import (
	"errors"
	"fmt"
)

// A List collects faults.
type List struct {
	prefix string
	errs   []error
}

// Of returns an empty List, of which each fault begins with the name of a package.
func Of(name string) *List { return &List{prefix: name + ": "} }

// If adds a fault if bad is true.
func (l *List) If(bad bool, format string, args ...any) {
	if bad {
		l.errs = append(l.errs, fmt.Errorf(l.prefix+format, args...))
	}
}

// Add adds an error as it is, unless it is nil.
func (l *List) Add(err error) { l.errs = append(l.errs, err) }

// Err returns all faults, joined; nil if there are none.
func (l *List) Err() error { return errors.Join(l.errs...) }
