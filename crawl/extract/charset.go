package extract

import (
	"bytes"
	"mime"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
)

const (
	// prescan is the number of bytes in which a <meta charset> is searched for.
	prescan  = 1024
	utf8Name = "utf-8"
)

var byteOrderMark = []byte("\ufeff")

// decode returns a document in UTF-8, without a byte order mark, and the name of its encoding.
// declares reports whether the body may declare that, as a page of HTML can. If no encoding is
// declared, the document is UTF-8 if all of it is valid, and windows-1252 otherwise; the library
// would decide by the first kilobyte. UTF-8 is not copied and may contain invalid bytes; these
// become U+FFFD in URLs and text.
func decode(body []byte, contentType string, declares bool) (text []byte, name string) {
	enc, name := externalEncoding(body, contentType)
	switch {
	case name != "":
	case declares:
		enc, name = declaredEncoding(body)
	}
	if name == "" {
		enc, name = detectEncoding(body)
	}
	if name != utf8Name {
		if decoded, err := enc.NewDecoder().Bytes(body); err == nil {
			body = decoded
		}
	}
	return bytes.TrimPrefix(body, byteOrderMark), name
}

// externalEncoding returns the encoding of the byte order mark, or else of the Content-Type. The
// name is "" if there is neither.
func externalEncoding(body []byte, contentType string) (encoding.Encoding, string) {
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

// declaredEncoding returns the encoding that a <meta> declares; the name is "" if none does. The
// library guesses then, by whether the beginning is UTF-8, and does not say so: a guess differs
// without and with letters in UTF-8.
func declaredEncoding(body []byte) (encoding.Encoding, string) {
	const letters = "\u00e9x" // the library may ignore the last one, which could be cut
	head := bytes.Map(func(c rune) rune { return min(c, utf8.RuneSelf-1) },
		body[:min(len(body), prescan-len(letters))])
	enc, name, _ := charset.DetermineEncoding(head, "")
	if _, guess, _ := charset.DetermineEncoding(append(head, letters...), ""); guess != name {
		return nil, ""
	}
	return enc, name
}

// detectEncoding returns the encoding of a document that declares none. UTF-16 is recognized by the
// first characters, which are ASCII in pages and most texts.
func detectEncoding(body []byte) (encoding.Encoding, string) {
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

// declaresCharset reports whether the beginning of the body has a <meta> that may declare its
// encoding.
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

// indexFold is like bytes.Index, for an ASCII word in any letter case.
func indexFold(s []byte, word string) int {
	for i := 0; i+len(word) <= len(s); i++ {
		if s[i]|0x20 == word[0]|0x20 && equalFold(s[i:i+len(word)], word) {
			return i
		}
	}
	return -1
}
