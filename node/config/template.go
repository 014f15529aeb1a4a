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

# How the owner of a part of the web is chosen: proxy, random,
# hash, or keep (whoever found it).
#strategy = "proxy"

# A URL where owners of web sites learn who crawls them and how to reach you.
# It is sent in the User-Agent. Set it before you crawl sites of others.
#contact = ""

# What the peer should keep to in memory; mapped files come on top. "0" is no
# bound.
#memory = "192MiB"

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

# Times of day at which this peer fetches, such as "22:00-06:00"; "" is always.
#hours = ""

# Fetch through a proxy, such as "http://127.0.0.1:3128" or "socks5://127.0.0.1:1080".
#proxy = ""

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

# How long a lease holds without renewal.
#lease_ttl = "10m"

# The wait between claiming and reading the claim back.
#settle = "1500ms"
`
