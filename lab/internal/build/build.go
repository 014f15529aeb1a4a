// Package build builds programs of this source tree for measurements.
package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
)

// ErrNoSource says that the working directory is not within the source tree.
var ErrNoSource = errors.New("not within the source tree of peerd")

// Root returns the directory of the module peerd, in which the working directory
// must be.
func Root(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "peerd").Output()
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoSource, err)
	}
	return string(bytes.TrimSpace(out)), nil
}

// Program builds the main package in folder, which is relative to the module's
// directory, into a file of the directory into and returns its path. The folder
// may be a module of its own.
func Program(ctx context.Context, folder, into string) (string, error) {
	root, err := Root(ctx)
	if err != nil {
		return "", err
	}
	if into, err = filepath.Abs(into); err != nil {
		return "", err
	}
	file := filepath.Join(into, filepath.Base(folder))
	cmd := exec.CommandContext(ctx, "go", "build", "-C",
		filepath.Join(root, filepath.FromSlash(folder)), "-o", file, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", folder, err, bytes.TrimSpace(out))
	}
	return file, nil
}
