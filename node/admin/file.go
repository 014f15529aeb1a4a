package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"

	"github.com/google/renameio/v2"
)

// apiFile is what api.json holds: where the server of a running peer listens
// and the token that opens it.
type apiFile struct {
	Addr  string `json:"addr"`
	Token string `json:"token"`
}

// maxAPIFileBytes bounds api.json.
const maxAPIFileBytes = 64 << 10

// writeAPIFile puts f at path whole or not at all, readable by its owner only.
// What a killed peer left there is replaced.
func writeAPIFile(path string, f apiFile) error {
	data, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return renameio.WriteFile(path, append(data, '\n'), 0o600, renameio.WithStaticPermissions(0o600))
}

// readAPIFile is the inverse of writeAPIFile; a missing file is ErrNotRunning.
func readAPIFile(path string) (apiFile, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return apiFile{}, ErrNotRunning
	}
	if err != nil {
		return apiFile{}, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxAPIFileBytes))
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
	if !tokenForm.MatchString(f.Token) {
		return apiFile{}, fmt.Errorf("%s: not written by a peer: bad token", path)
	}
	return f, nil
}
