package index

import (
	"context"
	"math"

	bleve "github.com/blevesearch/bleve_index_api"
)

// noDoc is the number of the page behind the last one.
const noDoc = math.MaxUint64

// cursor walks over the pages that have a term, in the order of their numbers.
type cursor struct {
	postings bleve.TermFieldReader
	at       bleve.TermFieldDoc
	doc      uint64 // at which it is; noDoc at the end
}

// openCursor returns a cursor at the first page with a term; nil if there is none. The caller
// closes the postings of a cursor, also after an error.
func openCursor(r bleve.IndexReader, field, term string, frequencies bool) (*cursor, error) {
	p, err := r.TermFieldReader(context.Background(), []byte(term), field, frequencies,
		frequencies, false)
	if err != nil {
		return nil, err
	}
	c := &cursor{postings: p}
	if p.Count() == 0 {
		return nil, p.Close()
	}
	return c, c.moved(p.Next(&c.at))
}

// moved takes over the result of a move.
func (c *cursor) moved(at *bleve.TermFieldDoc, err error) error {
	if at == nil || err != nil {
		c.doc = noDoc
		return err
	}
	c.doc = at.ID.Value()
	return nil
}

// seek moves to the first page with a number of at least n.
func (c *cursor) seek(n uint64) error {
	switch {
	case c.doc >= n:
		return nil
	case c.doc+1 == n:
		return c.moved(c.postings.Next(c.at.Reset()))
	}
	return c.moved(c.postings.Advance(bleve.NewIndexInternalID(nil, n), c.at.Reset()))
}

// union walks over the pages that have any of some terms.
type union []*cursor

// openUnion returns the union of terms of a field.
func openUnion(
	r bleve.IndexReader, field string, terms []string, frequencies bool,
) (union, error) {
	var u union
	for _, t := range terms {
		c, err := openCursor(r, field, t, frequencies)
		if c != nil {
			u = append(u, c)
		}
		if err != nil {
			u.close()
			return nil, err
		}
	}
	return u, nil
}

func (u union) close() {
	for _, c := range u {
		c.postings.Close()
	}
}

// seek moves to the first page with a number of at least n and returns its number.
func (u union) seek(n uint64) (doc uint64, err error) {
	doc = noDoc
	for _, c := range u {
		if err := c.seek(n); err != nil {
			return noDoc, err
		}
		doc = min(doc, c.doc)
	}
	return doc, nil
}

// count returns the number of pages of all terms together. Terms of different languages are in
// different pages.
func (u union) count() (n uint64) {
	for _, c := range u {
		n += c.postings.Count()
	}
	return n
}

// weigh returns how often the terms occur in a page at which the union is, relative to the
// length of the field.
func (u union) weigh(doc uint64, f weight) (tf float64) {
	for _, c := range u {
		if c.doc == doc {
			code := int(math.Round(1 / (c.at.Norm * c.at.Norm)))
			tf += f.boost * float64(c.at.Freq) / f.divisor(code)
		}
	}
	return tf
}

// Scorch stores the length of a field with each of its terms, in one byte if it is at most maxCode.
// What is stored there is the code of the length, which makes the index a tenth smaller. It is the
// logarithm of what divides the number of occurrences, to which 3 % more or less do not matter.
const maxCode = 127

// codeStep is the difference of two divisors with neighbouring codes. Texts of more than about
// 250,000 words count as long as these. Indexes store codes: it must not change.
const codeStep = 1.058

// code returns the code of a length in words. It is never 0: zapx takes a term for absent if a
// merged segment has it in one page only, and the length that is stored there is 0.
func (w weight) code(length int) int {
	divisor := 1 + w.b/(1-w.b)*float64(length)/w.length
	return min(max(int(math.Round(math.Log(divisor)/math.Log(codeStep))), 1), maxCode)
}

// divisor returns the divisor that belongs to the length with a code.
func (w weight) divisor(code int) float64 { return (1 - w.b) * divisors[min(code, maxCode)] }

// divisors are those of codes, for weights with b = 0.
var divisors = func() (all [maxCode + 1]float64) {
	for code := range all {
		all[code] = math.Pow(codeStep, float64(code))
	}
	return all
}()
