package fetch

import (
	"bytes"
	"io"
	"net/http"
)

// Decode undoes the content codings that h names of a body that was kept as it
// came. The result is cut at limit bytes, and where a broken coding breaks; the
// error is that of codings that are unknown, broken from the start, or a bomb.
func Decode(raw []byte, h http.Header, limit int64) ([]byte, error) {
	codings, err := codingsOf(h)
	if err != nil {
		return nil, err
	}
	if len(codings) == 0 {
		return raw[:min(int64(len(raw)), limit)], nil
	}
	src, free := decode(&meter{r: bytes.NewReader(raw), left: int64(len(raw))}, codings, limit, DefaultConfig().MaxRatio)
	defer free()
	body, err := io.ReadAll(io.LimitReader(src, limit))
	if len(body) > 0 {
		err = nil
	}
	return body, err
}
