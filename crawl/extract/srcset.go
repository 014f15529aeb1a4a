package extract

import "iter"

// srcsetURLs yields the URLs of a srcset attribute (HTML Standard, "parse a srcset attribute"),
// without their descriptors.
func srcsetURLs(s []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for {
			for len(s) > 0 && (isSpace(s[0]) || s[0] == ',') {
				s = s[1:]
			}
			if len(s) == 0 {
				return
			}
			i := 0
			for i < len(s) && !isSpace(s[i]) {
				i++
			}
			url := s[:i]
			s = s[i:]
			bare := false // a comma ends the candidate
			for len(url) > 0 && url[len(url)-1] == ',' {
				url, bare = url[:len(url)-1], true
			}
			if !yield(url) {
				return
			}
			if !bare {
				s = afterDescriptors(s)
			}
		}
	}
}

// afterDescriptors returns the part of s after the next comma that is not in parentheses.
func afterDescriptors(s []byte) []byte {
	inside := false
	for i, b := range s {
		switch {
		case b == '(':
			inside = true
		case b == ')':
			inside = false
		case b == ',' && !inside:
			return s[i+1:]
		}
	}
	return nil
}
