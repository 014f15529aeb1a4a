package extract

import (
	"bytes"
	"mime"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
)

const (
	// prescan is how far a <meta charset> is looked for, in bytes.
	prescan  = 1024
	utf8Name = "utf-8"
)

var byteOrderMark = []byte("\ufeff")

// decode returns a page in UTF-8, without byte order mark, and the name of the
// encoding it was in. What is declared nowhere counts as UTF-8 if all of it
// is, else as windows-1252; the library alone would judge by the first
// kilobyte. UTF-8 is not copied, and may have invalid bytes; they become
// U+FFFD where they matter, in URLs and text.
func decode(body []byte, contentType string) (text []byte, name string) {
	return decodeAs(body, contentType, declaresCharset(body))
}

// decodePlain is decode for what is no HTML: it declares nothing itself.
func decodePlain(body []byte, contentType string) (text []byte, name string) {
	return decodeAs(body, contentType, false)
}

// decodeAs is decode; declares says whether the body may name its encoding.
func decodeAs(body []byte, contentType string, declares bool) (text []byte, name string) {
	enc, name := fromOutside(body, contentType)
	switch {
	case name != "":
	case declares:
		enc, name, _ = charset.DetermineEncoding(body, "")
	default:
		enc, name = guess(body)
	}
	if name != utf8Name {
		if decoded, err := enc.NewDecoder().Bytes(body); err == nil {
			body = decoded
		}
	}
	return bytes.TrimPrefix(body, byteOrderMark), name
}

// fromOutside is the encoding that a byte order mark names, or else the
// Content-Type; the name is "" if neither does.
func fromOutside(body []byte, contentType string) (encoding.Encoding, string) {
	switch {
	case bytes.HasPrefix(body, byteOrderMark):
		return nil, utf8Name
	case bytes.HasPrefix(body, []byte("\xfe\xff")):
		return charset.Lookup("utf-16be")
	case bytes.HasPrefix(body, []byte("\xff\xfe")):
		return charset.Lookup("utf-16le")
	}
	if _, params, err := mime.ParseMediaType(contentType); err == nil && params["charset"] != "" {
		return charset.Lookup(params["charset"])
	}
	return nil, ""
}

// guess is for what is declared nowhere. UTF-16 shows by its first characters,
// as those of pages and of most texts are ASCII.
func guess(body []byte) (encoding.Encoding, string) {
	if len(body) >= 4 && body[0]|body[2] == 0 && body[1] != 0 && body[3] != 0 {
		return charset.Lookup("utf-16be")
	}
	if len(body) >= 4 && body[1]|body[3] == 0 && body[0] != 0 && body[2] != 0 {
		return charset.Lookup("utf-16le")
	}
	if utf8.Valid(body) {
		return nil, utf8Name
	}
	return charset.Lookup("windows-1252")
}

// declaresCharset says whether the start of the body has a <meta> that may
// declare its encoding.
func declaresCharset(body []byte) bool {
	head := body[:min(len(body), prescan)]
	for {
		i := indexFold(head, "charset")
		if i < 0 {
			return false
		}
		tag := head[bytes.LastIndexByte(head[:i], '>')+1 : i]
		if indexFold(tag, "<meta") >= 0 {
			return true
		}
		head = head[i+1:]
	}
}

// indexFold is bytes.Index for a word of ASCII in any case.
func indexFold(s []byte, word string) int {
	for i := 0; i+len(word) <= len(s); i++ {
		if s[i]|0x20 == word[0]|0x20 && equalFold(s[i:i+len(word)], word) {
			return i
		}
	}
	return -1
}
