package config

// template is the config.toml of a fresh home. Lines that start with "#" and
// no blank are settings at their defaults; all else is comment.
const template = `# Settings of this peer. Every setting is shown with its default; remove the
# "#" in front of one to change it. Options of "peerd run" override this file.

# Where other peers reach this one (multiaddrs).
#listen = ["/ip4/0.0.0.0/tcp/4101", "/ip4/0.0.0.0/udp/4101/quic-v1", "/ip6/::/tcp/4101", "/ip6/::/udp/4101/quic-v1"]

# Peers to join at start, such as "/ip4/192.0.2.7/tcp/4101/p2p/12D3Koo...".
#bootstrap = []

# Find peers on the local network without being told (multicast DNS).
#mdns = false

# Where the admin API listens; port 0 takes any free one. The address and the
# secret that opens it are in api.json beside this file while the peer runs.
#api = "127.0.0.1:0"

# File with the rules of the network, relative to this one; "" means the
# built-in network "peerd", which takes every web page.
#profile = ""

# How the owner of a part of the web is chosen: proxy (by network coordinates),
# random, hash, keep (whoever found it), geo (nearest on the globe), probe (everybody
# measures), sequential, himicra, ipmicra, or ipmicra-proxy (measure until one is
# near enough). geo needs geo_db; the last two need "peerd registry load".
#strategy = "proxy"

# Let a part of the web move on to a peer that has become clearly nearer, or
# when this one has become slow.
#adapt = true

# The connection time at which the last four of them are content with a peer; "0s"
# is never.
#threshold = "50ms"

# A data base of places in MaxMind's format, such as GeoLite2-City.mmdb, relative
# to this file; replace it by renaming another one.
#geo_db = ""

# A URL where owners of web sites learn who crawls them and how to reach you.
# It is sent in the User-Agent. Set it before you crawl sites of others.
#contact = ""

# What the peer should keep to in memory; mapped files come on top. "0" is no
# bound.
#memory = "192MiB"

# Hand everything over to other peers before the peer stops at SIGTERM or SIGINT,
# as "peerd stop" does, and for how long at most. A second signal kills.
#drain = false
#drain_timeout = "2m0s"

# debug, info, warn or error.
#log_level = "info"

[crawl]
# The least time between two requests to the same host or address. A server's
# crawl-delay and the network's floor hold too; the longest counts.
#min_delay = "1s"

# Address ranges that may be fetched from although they are not public, such as
# "192.168.0.0/16".
#allow_net = []

# How many fetches may be in flight, over all hosts.
#fetch_workers = 64

# Fixed addresses of hosts, in place of DNS, such as
# resolve = { "docs.example" = ["192.0.2.10"] }
#resolve = {}

# The longest that one request may take.
#timeout = "1m0s"

# Times of day at which this peer fetches, such as "22:00-06:00"; "" is always. What
# has work goes to other peers before the end, and comes back.
#hours = ""

# How many requests this peer sends to web servers in any 24 hours at most, and how
# many bytes a second it fetches on average, such as "1MB"; 0 is no bound. What is more
# goes to peers that have room, or waits.
#pages_per_day = 0
#bandwidth = "0"

# Fetch through a proxy, such as "http://127.0.0.1:3128" or "socks5://127.0.0.1:1080".
#proxy = ""

# Speak HTTP/1.1 only, so that an archive has the heads nearly as they were.
#http1_only = false

# Fetch also from servers whose TLS certificate is expired, self-signed or
# another host's.
#accept_invalid_tls = false

# With less free space than this on the disk nothing is fetched.
#min_free = "128MiB"

# How the workers are divided while there is more work than they can do: sites
# of this peer's own finding, sites that others handed over, single pages at
# others' request.
#shares = { own = 0.1, assigned = 0.8, estimations = 0.1 }

[archive]
# Keep every answer in WARC files, in the folder archive beside this file.
#enabled = false

# A file is closed at this size.
#max_file = "1GiB"

# All files together; when they are full nothing is fetched any more. "0" is no
# limit.
#quota = "0"

[overlay]
# A batch of URLs leaves for another peer when it has so many URLs, or when its
# oldest is so old.
#batch_max_urls = 1000
#batch_max_age = "5s"

# An unowned part of the web is claimed when so many of its URLs wait, or when
# the oldest waited so long.
#nursery_urls = 16
#nursery_age = "5s"

# How long a lease is kept by other peers without renewal. That this peer is
# gone is noticed within seconds all the same.
#lease_ttl = "12h"

# The wait between claiming and reading the claim back.
#settle = "1500ms"

# How many other peers hold a copy of each part of the web that this one has, to
# take it over if this one vanishes.
#shadows = 1
`

// ProfileTemplate is a profile with all keys; below [scope] they have their
// defaults.
const ProfileTemplate = `name  = "docs"
seeds = ["https://docs.example.org/"]      # every peer starts there
bootstrap = []                             # such as "/ip4/192.0.2.7/tcp/4101/p2p/12D3Koo..."
[scope]
mode = "hosts"                             # hosts, domains, regex or any
hosts = ["www.example.org"]                # and those of the seeds
domains = []                               # mode domains: with all hosts below them
include = []                               # mode regex: what is taken
exclude = ['\?print=']                     # any mode: what is not
[limits]
max_depth = 0                              # links from a seed; 0: no limit
max_url_length = 2048                      # bytes
max_pages_per_host = 0                     # 0: no limit
max_body_bytes = 8388608                   # a longer body is cut
[politeness]
min_delay = "0s"                           # no peer goes below it
delay_factor = 10.0                        # times the last download is the pause, 10 min_delay at most; 0: none
max_requests_per_host_day = 0              # 0: no limit
[urls]                                     # what does not name a page
drop_session_ids = true                    # jsessionid, PHPSESSID and the like
drop_tracking = false                      # utm_source, gclid and the like
sort_query = false                         # ?a=1&b=2 and ?b=2&a=1 are one page
[links]                                    # what is followed besides links to pages
media = false                              # images, sound, embedded objects
forms = false                              # forms that send GET
styles = false                             # style sheets, and what CSS within pages names
obey_nofollow = true                       # not pages' links if they ask so: meta robots, X-Robots-Tag
obey_rel_nofollow = false                  # nor links with rel nofollow, ugc or sponsored
obey_canonical = false                     # of a page with another canonical URL only that one
sitemaps = true                            # those that robots.txt names
[traps]                                    # URLs that are no pages but never end
heuristics = []                            # ["-calendar"]: all but this; ["length", "depth"]: only these
limits = {}                                # such as { numbers = 1000, dates = 500 }
[duplicates]                               # pages with the same content
exact = true                               # marks those whose body another page of the host had
near = false                               # and those whose text is nearly the same
max_copies = 1000                          # of one body; links of further ones are not followed; 0: they are
soft_404 = false                           # marks pages that say 200 and mean 404; links are not followed
mirrors = false                            # marks hosts that are copies of others; links are not followed
[revisit]
enabled = false                            # comes back to pages when they may have changed
min_interval = "1h"
max_interval = "2160h"
initial_interval = "24h"                   # of a page of which nothing is known
price = "1h"                               # freshness that one request has to buy; less is more requests
`
