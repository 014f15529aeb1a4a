package node

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"peerd/crawl/deny"
	"peerd/crawl/fetch"
	"peerd/internal/bounded"
	"peerd/node/config"
)

// The memory for the connections to web servers and for what comes over them, and for messages of
// other peers. Each is a part of the setting memory; the rest is for the store and the queues.
const (
	idlePart    = 3.75 // four fifteenths for idle connections
	bodyPart    = 4    // a fourth for large bodies in progress, and a third of that for decoders
	sessionPart = 32   // a thirty-second for TLS sessions of closed connections
	partialPart = 32   // a thirty-second for beginnings of bodies that were cut
	messagePart = 8    // an eighth for messages of other peers

	// idleBytes is the measured memory of an idle TLS connection (BenchmarkIdleMemory of package
	// fetch), and sessionBytes that of a session with its certificates.
	idleBytes    = 36 << 10
	sessionBytes = 8 << 10
	// minIdle and maxIdle bound the number of idle connections.
	minIdle, maxIdle = 64, 1 << 16
)

// idleConnections returns how many idle connections to web servers are kept, at a memory limit in
// bytes (0: none) and a limit on open files, half of which is for the store and for other peers.
func idleConnections(memory int64, files uint64) int {
	n := int64(min(files/2, maxIdle))
	if memory > 0 {
		n = min(n, int64(float64(memory)/idlePart/idleBytes))
	}
	return int(max(n, minIdle))
}

// bodyRates returns the rates below which the body of a page counts as slow. One that waits for the
// bandwidth of this peer does not.
func bodyRates(t config.Traffic) (minimum, steady int64) {
	fc := fetch.DefaultConfig()
	minimum, steady = fc.MinRate, fc.SteadyRate
	if limit := int64(t.Bandwidth); limit > 0 {
		steady = min(steady, limit/(8*maxWaitingReads))
		minimum = min(minimum, steady)
	}
	return minimum, steady
}

// fetchConfig returns the limits on web servers and connections by the settings. Peers that share
// a machine with others keep the defaults of package fetch.
func (n *Node) fetchConfig() (_ fetch.Config, err error) {
	fc := fetch.DefaultConfig()
	conf := n.opts.Config.Crawl
	fc.UserAgent, fc.Guard = n.opts.UserAgent, n.guard
	fc.MaxBody = n.opts.Profile.Limits.MaxBodyBytes
	fc.Lookups = n.names
	fc.Proxy, fc.TotalTimeout = conf.Proxy, conf.Timeout.Duration
	fc.HTTP2, fc.AcceptInvalidTLS = conf.HTTP2, conf.AcceptInvalidTLS
	fc.HeadTimeout = min(fc.HeadTimeout, fc.TotalTimeout)
	fc.ConnectTimeout = min(fc.ConnectTimeout, fc.TotalTimeout)
	fc.IdleTimeout = idleTimeout(n.gap())
	fc.MaxRaw = archiveLimits(n.opts.Config.Archive.MaxBody)
	fc.MinRate, fc.SteadyRate = bodyRates(n.opts.Config.Traffic)
	if n.opts.Emulation != nil {
		fc.Dial = n.opts.Emulation.DialWeb
	}
	if !n.opts.sharesMachine() {
		memory := int64(n.opts.Config.Memory)
		fc.MaxIdle = idleConnections(memory, config.OpenFiles())
		fc.MaxSessions, fc.BodyMemory = fc.MaxIdle, memory/bodyPart
		if memory > 0 {
			fc.MaxSessions = int(memory / sessionPart / sessionBytes)
			fc.MaxPartial = memory / partialPart
		}
	}
	if fc.Deny, err = n.openDeny(); err != nil {
		return fc, err
	}
	roots, err := rootCAs(n.opts.Home, conf.CAFiles)
	if roots != nil {
		fc.TLS = &tls.Config{RootCAs: roots}
	}
	return fc, err
}

func (n *Node) openDeny() (_ *deny.List, err error) {
	file := ""
	if n.opts.Home.Dir != "" {
		file = n.opts.Home.DenyFile()
	}
	if n.deny, err = deny.Open(file, n.log); err != nil {
		return nil, fmt.Errorf("read deny list: %w", err)
	}
	n.deny.OptOuts, err = n.openOptOuts()
	return n.deny, err
}

// idleTimeout returns how long a connection is kept idle if the usual time between two requests to
// a host is gap: longer than the longest pause.
func idleTimeout(gap time.Duration) time.Duration {
	return min(max(maxPauseFactor*gap+30*time.Second, time.Minute), 5*time.Minute)
}

// visitLength is the number of pages after which a host that is being visited gives way to others:
// most hosts have fewer, so they need one connection.
const visitLength = 64

// maxVisits returns how many hosts are visited at once if maxIdle idle connections are kept: some
// of these have a second one, and fetches for other peers need some, too.
func maxVisits(maxIdle int) int { return max(maxIdle*7/8, 1) }

// maxCAFile is the maximum size of a file with certificates of authorities.
const maxCAFile = 16 << 20

// rootCAs returns the authorities of the system (SSL_CERT_FILE and SSL_CERT_DIR replace them) and
// those in files, which are in PEM. It returns nil, which means those of the system, without files.
func rootCAs(home config.Home, files []string) (*x509.CertPool, error) {
	if len(files) == 0 {
		return nil, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // of a system without any
	}
	for _, name := range files {
		if err := addCAs(pool, home.Path(name)); err != nil {
			return nil, fmt.Errorf("read crawl.ca_files: %w", err)
		}
	}
	return pool, nil
}

func addCAs(pool *x509.CertPool, path string) error {
	text, err := bounded.ReadFile(path, maxCAFile)
	if err != nil {
		return err
	}
	if !pool.AppendCertsFromPEM(text) {
		return fmt.Errorf("%s: %w", path, errors.New("no certificate in PEM"))
	}
	return nil
}

// archiveLimits returns how much of bodies the archive keeps, by the setting archive.max_body.
func archiveLimits(limits map[string]config.Size) map[string]int64 {
	all := map[string]int64{"*/*": config.DefaultArchiveBody}
	for kind, limit := range limits {
		all[kind] = int64(limit)
	}
	return all
}
