package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"peerd/internal/bounded"

	"github.com/google/renameio/v2"
)

// apiFile is the content of api.json: the address and the token of the server of a running peer.
type apiFile struct {
	Addr  string `json:"addr"`
	Token string `json:"token"`
}

// maxAPIFileBytes bounds api.json.
const maxAPIFileBytes = 64 << 10

// writeAPIFile writes f to path atomically, readable by its owner only. It replaces the file of
// a killed peer.
func writeAPIFile(path string, f apiFile) error {
	data, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return renameio.WriteFile(path, append(data, '\n'), 0o600,
		renameio.WithStaticPermissions(0o600))
}

// readAPIFile is the inverse of writeAPIFile. The error for a missing file is ErrNotRunning.
func readAPIFile(path string) (apiFile, error) {
	data, err := bounded.ReadFile(path, maxAPIFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return apiFile{}, ErrNotRunning
	}
	if err != nil {
		return apiFile{}, err
	}
	return parseAPIFile(path, data)
}

func parseAPIFile(path string, data []byte) (apiFile, error) {
	var f apiFile
	if err := json.Unmarshal(data, &f); err != nil {
		return apiFile{}, fmt.Errorf("%s: not written by a peer: %w", path, err)
	}
	if _, _, err := net.SplitHostPort(f.Addr); err != nil {
		return apiFile{}, fmt.Errorf("%s: not written by a peer: bad address %q", path, f.Addr)
	}
	if !tokenPattern.MatchString(f.Token) {
		return apiFile{}, fmt.Errorf("%s: not written by a peer: bad token", path)
	}
	return f, nil
}

// writeTokenFile writes a token to path atomically, readable by its owner only.
func writeTokenFile(path, token string) error {
	return renameio.WriteFile(path, []byte(token+"\n"), 0o600,
		renameio.WithStaticPermissions(0o600))
}

// removeStale removes a file of a killed peer. It reports whether there was one.
func removeStale(path string) (bool, error) {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
