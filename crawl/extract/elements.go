package extract

// element is an element that matters, by what it may hold or do to what
// follows.
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
	svgAnchor // a of SVG
	graphic   // image, use and feImage of SVG

	// The following only change how the text is read.
	noscript
	template
	frameset
	table
	col
	svg
	math
)

// elementOf takes the names of HTML elements in lower case.
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
	case "img", "image": // an old mistake that the standard keeps
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
	case "frameset":
		return frameset
	case "table":
		return table
	case "col":
		return col
	case "svg":
		return svg
	case "math":
		return math
	}
	return other
}

// elementOfSVG takes the names of SVG elements in lower case.
func elementOfSVG(name []byte) element {
	switch string(name) {
	case "a":
		return svgAnchor
	case "image", "use", "feimage":
		return graphic
	case "style":
		return style
	}
	return other
}

// names are the elements that appear in links.
var names = [...]string{
	anchor: "a", svgAnchor: "a", area: "area", link: "link", iframe: "iframe", frame: "frame", meta: "meta", img: "img", source: "source",
	video: "video", audio: "audio", track: "track", object: "object", embed: "embed", input: "input", form: "form", style: "style",
}

// attribute is one that matters.
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

// attributes are those of one tag.
type attributes struct {
	has uint16 // by bit of attribute
	val [unknown][]byte
}

// get returns the value, nil if there is none.
func (a *attributes) get(k attribute) []byte {
	if a.has&(1<<k) == 0 {
		return nil
	}
	return a.val[k]
}

func (a *attributes) set(k attribute, val []byte) {
	if val == nil { // an empty value is one
		val = []byte{}
	}
	a.has |= 1 << k
	a.val[k] = val
}

// attributeOf takes the key in lower case, as it is written.
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

// wanted are the attributes that an element is looked at for, 0 if it is of no
// interest.
func wanted(e element, k Kinds) uint16 {
	var w uint16
	switch e {
	case svgAnchor:
		w = of(k, Pages, href, xlinkHref, rel)
	case anchor, area:
		w = of(k, Pages, href, rel)
	case link: // whatever the kinds: it may be canonical
		w = 1<<href | 1<<rel
	case iframe, frame:
		w = of(k, Pages, src)
	case meta:
		w = 1<<content | 1<<httpEquiv | 1<<name
	case base:
		w = 1 << href
	case img, source:
		w = of(k, Media, src, srcset)
	case video:
		w = of(k, Media, src, poster)
	case audio, track, embed:
		w = of(k, Media, src)
	case object:
		w = of(k, Media, data)
	case input:
		w = of(k, Media, src, typ)
	case form:
		w = of(k, Forms, action, method)
	case graphic:
		w = of(k, Media, href, xlinkHref)
	}
	return w | of(k, Styles, styleAttr)
}

func of(have, need Kinds, attrs ...attribute) (w uint16) {
	if have&need == 0 {
		return 0
	}
	for _, a := range attrs {
		w |= 1 << a
	}
	return w
}

// wantedBy holds wanted for every element and one set of kinds.
type wantedBy [math + 1]uint16

// wants is wanted for every set of kinds.
var wants = func() (t [16]wantedBy) {
	for k := range t {
		for e := range t[k] {
			t[k][e] = wanted(element(e), Kinds(k))
		}
	}
	return t
}()
