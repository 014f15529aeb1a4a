package web

import "strings"

// words are the words of the pages' text.
var words = strings.Fields(`
	amber anchor apple arrow autumn barley basin beacon birch bridge bright brook
	candle canyon cedar cellar chalk cherry clay cliff clover coast cobalt copper
	coral cotton crane creek crystal dawn delta desert dune eagle early east elm
	ember falcon fern field fjord flint forest fossil garden glacier glass golden
	granite grove harbor hazel heron hill hollow honey horizon indigo iron island
	ivory jasmine juniper kettle lagoon lantern larch lemon lichen lilac limestone
	linen lotus maple marble marsh meadow mint mirror morning moss mountain north
	oak oasis ocean olive opal orchard otter owl paper pearl pebble pine plain plum
	pond poplar prairie quarry quartz quiet rain raven reed reef ridge river robin
	rose rowan saffron sage salt sand sapphire scarlet shells shore silver slate
	slow snow sparrow spring spruce stone storm stream summer swallow thistle
	thunder tide timber topaz tower trail valley velvet violet walnut warm water
	west wheat willow wind winter wolf yarrow
	and the of with under over near beyond between after before where which`)

// names are the words used in paths: words without the function words at the end.
var names = words[:len(words)-13]

// title writes n words, the first letter upper case.
func (d *dice) title(buf []byte, n int) []byte {
	start := len(buf)
	for i := range n {
		if i > 0 {
			buf = append(buf, ' ')
		}
		buf = append(buf, names[d.below(len(names))]...)
	}
	buf[start] -= 'a' - 'A'
	return buf
}

// sentence writes 6–17 words and a full stop.
func (d *dice) sentence(buf []byte) []byte {
	buf = d.title(buf, 1)
	for range 5 + d.below(12) {
		buf = append(buf, ' ')
		buf = append(buf, words[d.below(len(words))]...)
	}
	return append(buf, '.', ' ')
}
