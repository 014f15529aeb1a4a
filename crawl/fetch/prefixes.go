package fetch

import "net/netip"

// specialPrefixes are all ranges of the IPv4 and IPv6 Special-Purpose Address Registries of the
// IANA (RFC 6890, RFC 8190), and the few others that cannot contain a public web server. The
// registries declare some of them globally reachable. Those are anycast services and translators
// rather than web sites, and the address of a translator contains another address; therefore both
// registries are complete here.
var specialPrefixes = prefixes(
	// IPv4 registry.
	"0.0.0.0/8",          // this network (RFC 791)
	"10.0.0.0/8",         // private use (RFC 1918)
	"100.64.0.0/10",      // shared address space (RFC 6598)
	"127.0.0.0/8",        // loopback (RFC 1122)
	"169.254.0.0/16",     // link local (RFC 3927); cloud metadata at .169.254
	"172.16.0.0/12",      // private use (RFC 1918)
	"192.0.0.0/24",       // IETF protocol assignments (RFC 6890), and within:
	"192.0.0.0/29",       // IPv4 service continuity (RFC 7335)
	"192.0.0.8/32",       // IPv4 dummy address (RFC 7600)
	"192.0.0.9/32",       // port control protocol anycast (RFC 7723)
	"192.0.0.10/32",      // TURN anycast (RFC 8155)
	"192.0.0.170/32",     // NAT64/DNS64 discovery (RFC 8880)
	"192.0.0.171/32",     // the same
	"192.0.2.0/24",       // documentation, TEST-NET-1 (RFC 5737)
	"192.31.196.0/24",    // AS112 (RFC 7535)
	"192.52.193.0/24",    // AMT (RFC 7450)
	"192.88.99.0/24",     // 6to4 relay anycast, deprecated (RFC 7526)
	"192.88.99.2/32",     // 6a44 relay anycast (RFC 6751)
	"192.168.0.0/16",     // private use (RFC 1918)
	"192.175.48.0/24",    // direct delegation AS112 (RFC 7534)
	"198.18.0.0/15",      // benchmarking (RFC 2544)
	"198.51.100.0/24",    // documentation, TEST-NET-2 (RFC 5737)
	"203.0.113.0/24",     // documentation, TEST-NET-3 (RFC 5737)
	"240.0.0.0/4",        // reserved (RFC 1112)
	"255.255.255.255/32", // limited broadcast (RFC 919)
	// Not in the registry.
	"224.0.0.0/4",      // multicast (RFC 5771)
	"168.63.129.16/32", // machine agent of a cloud provider, in a public range

	// IPv6 registry.
	"::1/128",           // loopback (RFC 4291)
	"::/128",            // unspecified (RFC 4291)
	"::ffff:0:0/96",     // IPv4-mapped (RFC 4291)
	"64:ff9b::/96",      // IPv4-IPv6 translation, NAT64 (RFC 6052)
	"64:ff9b:1::/48",    // local-use translation (RFC 8215)
	"100::/64",          // discard only (RFC 6666)
	"100:0:0:1::/64",    // dummy prefix (RFC 9780)
	"2001::/23",         // IETF protocol assignments (RFC 2928), and within:
	"2001::/32",         // Teredo (RFC 4380)
	"2001:1::1/128",     // port control protocol anycast (RFC 7723)
	"2001:1::2/128",     // TURN anycast (RFC 8155)
	"2001:1::3/128",     // DNS-SD registration anycast (RFC 9665)
	"2001:2::/48",       // benchmarking (RFC 5180)
	"2001:3::/32",       // AMT (RFC 7450)
	"2001:4:112::/48",   // AS112 (RFC 7535)
	"2001:10::/28",      // ORCHID, deprecated (RFC 4843)
	"2001:20::/28",      // ORCHIDv2 (RFC 7343)
	"2001:30::/28",      // drone remote identification (RFC 9374)
	"2001:db8::/32",     // documentation (RFC 3849)
	"2002::/16",         // 6to4 (RFC 3056)
	"2620:4f:8000::/48", // direct delegation AS112 (RFC 7534)
	"3fff::/20",         // documentation (RFC 9637)
	"5f00::/16",         // segment routing identifiers (RFC 9602)
	"fc00::/7",          // unique local (RFC 4193); cloud metadata within
	"fe80::/10",         // link local (RFC 4291)
	// Not in the registry.
	"::/96",     // IPv4-compatible, deprecated (RFC 4291)
	"fec0::/10", // site local, deprecated (RFC 3879)
	"ff00::/8",  // multicast (RFC 4291)
)

// globalUnicast is the only part of IPv6 that is allocated to networks.
var globalUnicast = netip.MustParsePrefix("2000::/3")

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, s := range texts {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}
