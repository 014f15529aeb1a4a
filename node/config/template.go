package config

// template is the config.toml of a new home. Lines that start with "#" and a character other
// than a space are settings with their defaults; all other lines are comments. The comment
// above each setting is also its description in docs/configuration.md.
const template = `# Settings of this peer. Every setting is shown with its default. To change
# a setting, remove the "#" in front of it. Options of "peerd run" override this file.

# Addresses on which other peers reach this one (multiaddrs).
#listen = [
#"/ip4/0.0.0.0/tcp/4101", "/ip4/0.0.0.0/udp/4101/quic-v1",
#"/ip6/::/tcp/4101", "/ip6/::/udp/4101/quic-v1"]

# Addresses that other peers are told instead of those in listen, at most four, such as that of a
# router that forwards a port: "/ip4/198.51.100.7/tcp/4101".
#announce = []

# Peers to join at the start, such as "/ip4/192.0.2.7/tcp/4101/p2p/12D3Koo...".
#bootstrap = []

# Find out whether other peers can connect to this one. If they cannot, ask the router to forward
# the ports (UPnP, NAT-PMP), or other members of the network to relay. Peers without this setting
# cannot reach those that are reached through relays.
#nat = true

# Relay for members that cannot be connected to, within limits, if others can connect to this peer.
#relay = true

# Find peers on the local network by multicast DNS.
#mdns = false

# Address of the admin API; port 0 is any free port. While the peer runs, api.json beside
# this file holds the address and the secret for it, and read.token a secret that
# permits only to read, for monitoring.
#api = "127.0.0.1:0"

# Serve profiles of the process (Go's pprof) at /debug/pprof/ of the admin API, for the secret in
# api.json only.
#pprof = false

# Add libp2p's own metrics to /metrics of the admin API.
#libp2p_metrics = false

# File with the rules of the network, relative to this file. "" is profile.toml beside this file,
# or without that the built-in network "peerd", which fetches every web page.
#profile = ""

# How the owner of a subnet is chosen: proxy (nearest by network coordinates), random, hash,
# keep (the peer that found it), geo (nearest on the globe), probe (all peers measure),
# sequential, himicra, ipmicra or ipmicra-proxy (measure until one peer is near enough).
# geo needs geo_db; the last two need "peerd registry load".
#strategy = "proxy"

# Move a subnet to another peer if that one has become clearly nearer, or this one slow.
#adapt = true

# For sequential, himicra, ipmicra and ipmicra-proxy: accept the first peer that connects
# within this time. 0s disables early acceptance.
#threshold = "50ms"

# Geolocation database in MaxMind's format, such as GeoLite2-City.mmdb, relative to this
# file. To update it, replace it by renaming the new file.
#geo_db = ""

# URL where owners of web sites find out who crawls them and how to contact you. It is part
# of the User-Agent. Set it before you crawl web sites of others.
#contact = ""

# Memory that the peer should use at most, without memory-mapped files; "0" is no limit.
#memory = "192MiB"

# Let the process open only its home, what the settings name, and the configuration of the system
# (Landlock), if the kernel supports that.
#sandbox = true

# At SIGTERM or SIGINT, hand everything over to other peers before the peer stops, as
# "peerd stop" does. A second signal kills the peer.
#drain = false

# Maximum time for handing over after a signal.
#drain_timeout = "2m0s"

# Minimum level of log messages: debug, info, warn or error.
#log_level = "info"

# Web sites of which the files are on this machine: URL of a directory = its document root, relative
# to this file. Changed pages are fetched within seconds, by whichever peer owns the site's
# subnet, if the site's robots.txt has the line "Peerd-Peer: ID" with the ID of this peer:
# local_sites = { "https://www.example.org/" = "/srv/www" }
#local_sites = {}

# Report the pages of these sites from their files to the peers that own the sites' subnets. They
# request only a sample, and compare. Leave it off if the web server protects any page below the
# document roots, by a password or by address: it would become public.
#report_local_sites = false

# Form of log messages: text or json (one object a line).
#log_format = "text"

# File to which log messages are written, relative to this file. It is renamed at 16 MB, and the
# last four are kept. "" is standard error.
#log_file = ""

[crawl]
# Minimum time between two requests to the same host or address; for an address that serves many
# domains, see address_requests. A longer crawl-delay of the server, or a longer minimum of the
# network, applies instead.
#min_delay = "1s"

# Maximum number of concurrent requests to an address that serves many domains, and the factor by
# which it may be asked more often than an address of one host; 1 is one request at a time. It
# grows while the answers are steady, up to the square root of the number of domains, and falls
# at once if the address answers slower, with errors or not at all. network_requests and
# network_rate still hold.
#address_requests = 8

# Maximum number of concurrent requests to a network of addresses, an IPv4 /24 or IPv6 /48; 0
# is no limit.
#network_requests = 4

# Maximum number of requests per second to a network of addresses; 0 is no limit. With a shorter
# min_delay than 0.1s, one request in each min_delay is allowed.
#network_rate = 10.0

# Ranges of addresses that may be fetched from although they are not public, such as
# "192.168.0.0/16".
#allow_net = []

# Maximum number of concurrent fetches.
#fetch_workers = 64

# Addresses of hosts that replace DNS, such as
# resolve = { "docs.example" = ["192.0.2.10"] }
#resolve = {}

# Name servers in order of preference: addresses such as "192.0.2.1" or "192.0.2.1:5353",
# "tls://HOST" (DNS over TLS), "https://HOST/dns-query" (DNS over HTTPS), or only "system",
# the resolver of the operating system. Empty: the name servers in /etc/resolv.conf.
#resolver = []

# Maximum number of queries per second to one name server. A new host needs two.
#dns_rate = 500

# Maximum time until the head of a response has arrived. Its body may take one second more for
# every 16 KiB.
#timeout = "1m0s"

# Time for which a host may answer nothing, while the network of this peer is up, before its
# URLs are given up. "peerd crawl" has the option --patience instead.
#patience = "72h0m0s"

# Share of the pages that other peers fetch for this one, to find out who is nearest to a server,
# which this peer fetches again to check their reports. Those of a peer are all checked until one
# has agreed. 0 believes all reports, and so does a network to which members are admitted.
#check_reports = 0.03

# Times of day at which this peer fetches, such as "22:00-06:00"; "" is always, and "never"
# never. Before the end, it hands subnets with work over to other peers; they come back later.
#hours = ""

# Maximum number of requests to web servers in any 24 hours; 0 is no limit. Other peers with
# free capacity get the rest of the work, or it waits.
#pages_per_day = 0

# Maximum average bandwidth of fetches in bytes per second, such as "1MB"; "0" is no limit.
#bandwidth = "0"

# Proxy for fetches, such as "http://127.0.0.1:3128" or "socks5://127.0.0.1:1080"; "" is none.
#proxy = ""

# Use HTTP/2 with servers that offer it. A host gets one request at a time, so HTTP/2 saves nothing,
# takes half as much processor time again, and an archive holds the headers only in translation.
#http2 = false

# Also fetch from servers with an expired, self-signed or otherwise invalid TLS certificate.
#accept_invalid_tls = false

# Files with certificates in PEM, relative to this file, of authorities that are trusted in
# addition to those of the system.
#ca_files = []

# File with the reference crawllet (make crawllet), relative to this file. With it, pages of web
# sites that run crawllets are fetched by it, many at once: docs/crawllet.md; "" requests each page.
#crawllet = ""

# Stop fetching while the disk has less free space than this.
#min_free = "128MiB"

# Relative shares of the workers while there is more work than they can do: own (hosts that
# this peer found), assigned (hosts that other peers handed over) and estimations (single
# pages at the request of other peers).
#shares = { own = 0.1, assigned = 0.8, estimations = 0.1 }

[archive]
# Store every response in WARC files, in the folder archive beside this file.
#enabled = false

# Size at which a WARC file is closed.
#max_file = "1GiB"

# Maximum size of all WARC files; when it is reached, fetching stops. "0" is no limit.
#quota = "0"

# How much is kept of bodies that are not pages, by media type, such as
# { "video/*" = "64KiB", "application/pdf" = "1GiB", "*/*" = "1MiB" }. Of all others, 8 MiB are
# kept; of pages, what max_body_bytes of the network allows.
#max_body = {}

[search]
# Index the archived pages for "peerd search", in the folder index beside this file. It needs an
# archive, and up to as much processor time for a page as fetching and archiving it.
#enabled = false

# How many other peers keep a copy of the archive, from which they answer searches while this peer
# does not run; at most 8; 0 is none. A collector has none. See docs/search.md.
#mirrors = 1

# Maximum number of bytes per second that this peer sends to all of them together; "0" sends
# nothing.
#mirror_upload = "4MiB"

# Maximum size of the copies of the archives of other peers that this peer keeps, in the folder
# mirrors beside this file. An archive may have half of it. "0" keeps none.
#mirror_space = "10GiB"

# Let the ranks of the hosts that link influence the order of hits. Peers exchange ranks while they
# change, and until then an order is not that of one index. Peers that search together should agree.
#ranks = false

[replay]
# Address of this machine, such as "127.0.0.1:8090", at which browsers and other programs see the
# archived pages, without secret. It needs an archive. "" is none. See docs/replay.md.
#listen = ""

[page]
# Address and port, such as "0.0.0.0:8091", of a page for the owners of web sites: who crawls, which
# peer crawls a site, how a site opts out; it also takes their pings (IndexNow). Set contact to its
# URL. "" is none. See docs/sites.md.
#listen = ""

[collect]
# Copy what the other peers of the network archive into the archive of this peer. It needs an
# archive; "peerd collect" runs a peer that does this alone.
#enabled = false

# Collect only the pages of these hosts, such as ["www.example.org"]; [] is all hosts.
#hosts = []

# Collect also the pages that one of these queries finds, such as ["lang:de apple -pie",
# "site:example.org"]; with topics and no hosts, only those: docs/collect.md.
#topics = []

# Maximum number of bytes per second, before compression, that this peer sends from its archive
# to all collectors together; "0" sends nothing.
#upload = "1MiB"

[plugins]
# The publishers, by peer ID, of the plug-ins that this peer runs on the pages that it fetches, and
# passes on to other peers: docs/plugins.md.
#publishers = []

[traffic]
# Maximum number of bytes per second that this peer sends and receives, to and from web servers and
# other peers together, such as "500kB"; at least "20kB"; "0" is no limit. With a limit, QUIC is not
# used.
#bandwidth = "0"

# Maximum number of bytes that this peer sends and receives in a calendar month (UTC), such as
# "50GB"; at least "10MB"; "0" is no limit. A fiftieth is kept for other peers. With a limit, QUIC
# is not used.
#monthly_volume = "0"

[traces]
# URL of a collector of OpenTelemetry to which this peer reports what it does: fetches with their
# phases, batches, handovers and estimations, with their URLs. It takes JSON over HTTP, such as
# "http://127.0.0.1:4318/v1/traces". "" is none.
#endpoint = ""

[events]
# Write what happens in this peer, for experiments, to the file events.jsonl beside this file.
#enabled = false

# Size at which the event log ends; "0" is no limit.
#max_size = "1GiB"

[overlay]
# Number of URLs at which a batch is sent to another peer.
#batch_max_urls = 1000

# Age of its oldest URL at which a batch is sent to another peer.
#batch_max_age = "5s"

# Number of waiting URLs at which this peer claims a subnet without owner.
#unclaimed_urls = 16

# Age of the oldest waiting URL at which this peer claims a subnet without owner.
#unclaimed_age = "5s"

# Time for which other peers keep a lease that is not renewed. A failed peer is detected
# within seconds nevertheless.
#lease_ttl = "12h"

# Time between publishing a claim and reading it back.
#settle = "1500ms"

# Number of other peers that keep a copy of each subnet of this peer, and take it over if
# this peer fails.
#replicas = 1
`

// ProfileTemplate is a profile with all keys. Below [scope], the values are the defaults. The
// comments are also the descriptions in docs/profile.md.
const ProfileTemplate = `name  = "docs"                             # 1 to 32 of a-z, 0-9 and -
seeds = ["https://docs.example.org/"]      # URLs at which every peer starts
bootstrap = []                             # peers, as /ip4/192.0.2.7/tcp/4101/p2p/12D3Koo...
admission = "open"                         # who may join: open, invite or closed
founders = []                              # peer IDs that need no invitation
[scope]
mode = "hosts"                             # what is crawled: hosts, domains, regex or any
hosts = ["www.example.org"]                # mode hosts: these hosts, and those of the seeds
domains = []                               # mode domains: these, with all hosts below them
include = []                               # regular expressions; a URL must match one
exclude = ['\?print=']                     # regular expressions; a URL must match none
[limits]
max_depth = 0                              # links to follow from a seed; 0: no limit
max_url_length = 2048                      # bytes of a URL, at most 2048
max_pages_per_host = 0                     # URLs of a host; 0: no limit
max_body_bytes = 8388608                   # bytes of a body; longer ones are truncated
[politeness]
min_delay = "0s"                           # minimum for crawl.min_delay of each peer
delay_factor = 10.0                        # pause in download times, up to 10 min_delay; 0: none
max_requests_per_host_day = 0              # requests to a host a day (UTC); 0: no limit
[urls]                                     # parts of URLs that do not identify a page
drop_session_ids = true                    # remove jsessionid, PHPSESSID and the like
drop_tracking = false                      # remove utm_source, gclid and the like
sort_query = false                         # treat ?a=1&b=2 and ?b=2&a=1 as the same page
[links]                                    # what is followed in addition to links to pages
media = false                              # follow images, sound and embedded objects
forms = false                              # follow forms that send GET
styles = false                             # follow style sheets, and URLs in CSS within pages
obey_nofollow = true                       # obey nofollow of a page: meta robots, X-Robots-Tag
obey_rel_nofollow = false                  # obey nofollow, ugc and sponsored of a link
obey_canonical = false                     # of a page with a canonical URL, follow only that
sitemaps = true                            # read the sitemaps that robots.txt names
[traps]                                    # recognizes URLs of endless sites
heuristics = []                            # ["-facets"]: all but this; ["length"]: only this
limits = {}                                # such as { yield = 100, closed = 200 }
[duplicates]                               # pages with the same content
exact = true                               # mark pages with the same body as another of the host
max_copies = 1000                          # copies of a body with links followed; 0: all
[revisit]
enabled = false                            # fetch pages again when they may have changed
min_interval = "1h"                        # minimum time between two visits of a page
max_interval = "2160h"                     # maximum time between two visits of a page
initial_interval = "24h"                   # time between the first two visits of a page
price = "1h"                               # freshness to gain by a request; less: more requests
`
