package fetch

import (
	"bytes"
	"io"
	"net/http"
)

// Decode decodes a stored body according to the Content-Encoding of h. The result is cut at limit
// bytes, and at an error in the data. It returns an error if a coding is unknown, if the data is
// invalid from its beginning, or if it expands too far.
func Decode(raw []byte, h http.Header, limit int64) ([]byte, error) {
	codings, err := codingsOf(h)
	if err != nil {
		return nil, err
	}
	if len(codings) == 0 {
		return raw[:min(int64(len(raw)), limit)], nil
	}
	stored := &countingReader{r: bytes.NewReader(raw), left: int64(len(raw))}
	src, free := decode(stored, codings, limit, DefaultConfig().MaxRatio)
	defer free()
	body, err := io.ReadAll(io.LimitReader(src, limit))
	if len(body) > 0 {
		err = nil
	}
	return body, err
}
