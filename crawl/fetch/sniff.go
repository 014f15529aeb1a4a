package fetch

import (
	"net/http"
	"strings"
)

// sniffed is the number of bytes of a body that show its type.
const sniffed = 512

// sniffType returns the type of a body by its first bytes if the Content-Type field is missing or
// contradicted, and otherwise the field. A missing type is determined as by browsers (MIME Sniffing
// Standard, section 7.1, which http.DetectContentType implements), after a byte order mark. Unlike
// browsers, which would show garbage, it does not believe a field if the body begins with the
// signature of an image, sound, video, font, archive or document in PDF.
func sniffType(contentType string, first []byte) string {
	mediaType, _, _ := strings.Cut(contentType, ";")
	mediaType = strings.ToLower(strings.Trim(mediaType, " \t"))
	found := http.DetectContentType(first[:min(len(first), sniffed)])
	switch mediaType {
	case "", "unknown/unknown", "application/unknown", "*/*":
		if rest, ok := strings.CutPrefix(string(first), "\xef\xbb\xbf"); ok {
			found = http.DetectContentType([]byte(rest))
		}
		return found
	}
	if strings.HasPrefix(found, "text/") || found == "application/octet-stream" {
		return contentType
	}
	return found
}
