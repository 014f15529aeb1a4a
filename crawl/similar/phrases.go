package similar

import (
	"bytes"
	"unicode"
)

// A text says "not found" anywhere only if it is short: long ones may be about
// it.
const shortText = 1500 // bytes, without markup

// SaysNotFound says whether a page's title, or its text if it is short, has one
// of the phrases that error pages have, in a dozen languages. The title is
// UTF-8 without markup, of which the first 512 bytes are read; the body is HTML
// or plain text in UTF-8.
func SaysNotFound(title string, body []byte) bool {
	if says([]byte(title[:min(len(title), 512)])) {
		return true
	}
	text := visible(body, shortText+1)
	return len(text) <= shortText && says(text)
}

func says(text []byte) bool {
	text = bytes.Map(unicode.ToLower, bytes.Join(bytes.Fields(text), []byte(" ")))
	for _, phrase := range phrases {
		if at := bytes.Index(text, phrase); at >= 0 && alone(text, at, at+len(phrase)) {
			return true
		}
	}
	return false
}

// alone says whether what stands from lo to hi is not part of a longer number
// or word of ASCII letters.
func alone(text []byte, lo, hi int) bool {
	if lower[text[lo]] == 0 {
		return true
	}
	return (lo == 0 || lower[text[lo-1]] == 0) && (hi == len(text) || lower[text[hi]] == 0)
}

// phrases are in lower case.
var phrases = func() (list [][]byte) {
	for _, p := range []string{
		"page not found", "file not found", "404 not found", "not found", "error 404", "404 error", "http 404", "(404)",
		"does not exist", "doesn't exist", "could not be found", "cannot be found", "can't be found", "no longer exists",
		"no longer available", "no such page", "page missing", "nothing was found",
		"nicht gefunden", "existiert nicht", "page introuvable", "page non trouvée", "n'existe pas", "no encontrada", "no existe",
		"pagina non trovata", "non esiste", "não encontrada", "não existe", "niet gevonden", "nie znaleziono", "nie istnieje",
		"nebyla nalezena", "hittades inte", "не найдена", "не существует", "bulunamadı", "見つかりません", "存在しません",
		"页面不存在", "找不到", "찾을 수 없습니다",
	} {
		list = append(list, []byte(p))
	}
	return list
}()
