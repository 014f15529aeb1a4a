package extract

// element is an element that may contain links or change the meaning of what follows.
type element uint8

const (
	other element = iota
	anchor
	area
	link
	iframe
	frame
	meta
	base
	title
	img
	source
	video
	audio
	track
	object
	embed
	input
	form
	style
	image   // of SVG; browsers take one of HTML for img
	graphic // use and feImage of SVG

	// The following only affect how the text is read.
	noscript
	template
	svg
	math
	heading
	block   // other elements that begin and end a line
	cell    // elements next to which words are separate
	rawText // xmp and the like: tags in it are text
	ignored // script and the like: nothing in it is read

	numElements
)

// elementOf returns the element with a name in lower case.
//
//nolint:gocyclo // a table; a switch does not allocate
func elementOf(name []byte) element {
	switch string(name) {
	case "a":
		return anchor
	case "area":
		return area
	case "link":
		return link
	case "iframe":
		return iframe
	case "frame":
		return frame
	case "meta":
		return meta
	case "base":
		return base
	case "title":
		return title
	case "img":
		return img
	case "source":
		return source
	case "video":
		return video
	case "audio":
		return audio
	case "track":
		return track
	case "object":
		return object
	case "embed":
		return embed
	case "input":
		return input
	case "form":
		return form
	case "style":
		return style
	case "noscript":
		return noscript
	case "template":
		return template
	case "image":
		return image
	case "use", "feimage":
		return graphic
	case "svg":
		return svg
	case "math":
		return math
	case "h1", "h2", "h3", "h4", "h5", "h6":
		return heading
	case "address", "article", "aside", "blockquote", "body", "br", "caption", "center", "dd",
		"details", "dialog", "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer",
		"head", "header", "hgroup", "hr", "html", "legend", "li", "listing", "main", "menu", "nav",
		"ol", "optgroup", "option", "p", "pre", "search", "section", "select", "summary", "table",
		"tbody", "tfoot", "thead", "tr", "ul":
		return block
	case "button", "td", "th":
		return cell
	case "plaintext", "textarea", "xmp":
		return rawText
	case "script", "noembed", "noframes":
		return ignored
	}
	return other
}

// textRules are the effects of an element on the text of the page.
type textRules struct {
	gap    byte // the separator before and after it; 0: none
	raw    bool // the tokenizer treats what is in it as text
	hidden bool // its text is not visible
}

var rulesOf = [numElements]textRules{
	iframe: {raw: true, hidden: true}, style: {raw: true, hidden: true},
	ignored: {raw: true, hidden: true}, noscript: {raw: true},
	title: {gap: '\n', raw: true}, rawText: {gap: '\n', raw: true},
	form: {gap: '\n'}, heading: {gap: '\n'}, block: {gap: '\n'},
	img: {gap: ' '}, image: {gap: ' '}, input: {gap: ' '}, cell: {gap: ' '},
}

// elementNames are the names of the elements in links.
var elementNames = [...]string{
	anchor: "a", area: "area", link: "link", iframe: "iframe", frame: "frame",
	meta: "meta", img: "img", source: "source",
	video: "video", audio: "audio", track: "track", object: "object", embed: "embed",
	input: "input", form: "form", style: "style",
}

// attribute is an attribute of interest.
type attribute uint8

const (
	href attribute = iota
	xlinkHref
	src
	rel
	content
	httpEquiv
	name
	srcset
	data
	action
	method
	poster
	typ
	styleAttr
	unknown
)

// attributes are the attributes of one tag.
type attributes struct {
	has uint16 // bit set of attribute
	val [unknown][]byte
}

// get returns the value of an attribute, nil if there is none.
func (a *attributes) get(k attribute) []byte {
	if a.has&(1<<k) == 0 {
		return nil
	}
	return a.val[k]
}

func (a *attributes) set(k attribute, val []byte) {
	if val == nil { // an empty value differs from none
		val = []byte{}
	}
	a.has |= 1 << k
	a.val[k] = val
}

// attributeOf returns the attribute with a key in lower case, as written.
func attributeOf(key []byte) attribute {
	switch string(key) {
	case "href":
		return href
	case "xlink:href":
		return xlinkHref
	case "src":
		return src
	case "rel":
		return rel
	case "content":
		return content
	case "http-equiv":
		return httpEquiv
	case "name":
		return name
	case "srcset":
		return srcset
	case "data":
		return data
	case "action":
		return action
	case "method":
		return method
	case "poster":
		return poster
	case "type":
		return typ
	case "style":
		return styleAttr
	}
	return unknown
}

// wantedAttributes returns the bit set of the attributes that are read of an element, 0 if the
// element is ignored.
func wantedAttributes(e element, k Kinds) uint16 {
	var w uint16
	switch e {
	case anchor, area:
		w = attributeMask(k, Pages, href, xlinkHref, rel)
	case link: // for any kinds, because it may be canonical
		w = 1<<href | 1<<rel
	case iframe, frame:
		w = attributeMask(k, Pages, src)
	case meta:
		w = 1<<content | 1<<httpEquiv | 1<<name
	case base:
		w = 1 << href
	case img, source:
		w = attributeMask(k, Media, src, srcset)
	case video:
		w = attributeMask(k, Media, src, poster)
	case audio, track, embed:
		w = attributeMask(k, Media, src)
	case object:
		w = attributeMask(k, Media, data)
	case input:
		w = attributeMask(k, Media, src, typ)
	case form:
		w = attributeMask(k, Forms, action, method)
	case image, graphic:
		w = attributeMask(k, Media, src, href, xlinkHref)
	}
	return w | attributeMask(k, Styles, styleAttr)
}

func attributeMask(have, need Kinds, attrs ...attribute) (w uint16) {
	if have&need == 0 {
		return 0
	}
	for _, a := range attrs {
		w |= 1 << a
	}
	return w
}

// wantedTable is the result of wantedAttributes for every element and one set of kinds.
type wantedTable [numElements]uint16

// wantedTables has a wantedTable for every set of kinds.
var wantedTables = func() (t [16]wantedTable) {
	for k := range t {
		for e := range t[k] {
			t[k][e] = wantedAttributes(element(e), Kinds(k))
		}
	}
	return t
}()
