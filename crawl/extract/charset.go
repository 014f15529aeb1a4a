package extract

import (
	"bytes"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
)

// prescan is how far DetermineEncoding looks for a <meta charset>, in bytes.
const prescan = 1024

// decode returns the body in UTF-8, without byte order mark. What is declared
// nowhere counts as UTF-8 if all of it is, else as windows-1252; the library
// alone would judge by the first kilobyte. UTF-8 may have invalid bytes; they
// become U+FFFD where they matter, in URLs and the title.
func decode(body []byte, contentType string) []byte {
	enc, name, certain := charset.DetermineEncoding(body, contentType)
	if name != "utf-8" && !certain && !declares(body) && utf8.Valid(body) {
		name = "utf-8"
	}
	if name != "utf-8" {
		if text, err := enc.NewDecoder().Bytes(body); err == nil {
			body = text
		}
	}
	return bytes.TrimPrefix(body, []byte("\ufeff"))
}

// declares says whether the start of the body may declare its encoding.
func declares(body []byte) bool {
	head := bytes.ToLower(body[:min(len(body), prescan)])
	return bytes.Contains(head, []byte("charset"))
}
