package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// emit sends one series: its value and the values of its labels.
type emit func(v float64, labels ...string)

// row is a metric that is made of a State.
type row struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	values func(s *State, out emit)
}

func gauge(name, help string, values func(*State, emit), labels ...string) row {
	return row{prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue, values}
}

func counter(name, help string, values func(*State, emit), labels ...string) row {
	return row{prometheus.NewDesc(name, help, labels, nil), prometheus.CounterValue, values}
}

// one is a metric with a single series.
func one(value func(s *State) float64) func(*State, emit) {
	return func(s *State, out emit) { out(value(s)) }
}

// number is a metric with a single series that counts something.
func number[N int | int64](value func(s *State) N) func(*State, emit) {
	return func(s *State, out emit) { out(float64(value(s))) }
}

// table lists the metrics. New ones need a line in docs/monitoring/README.md.
var table = append(append(crawlTable, ownerTable...), peerTable...)

// crawlTable lists the metrics of the crawler.
var crawlTable = []row{
	gauge("peerd_urls",
		"URLs that wait for something, each in one state: queued at their host, in_flight, in the "+
			"outbox on their way to their owner, or unclaimed because their subnet has no owner.",
		func(s *State, out emit) {
			out(float64(s.Frontier.Pending), "queued")
			out(float64(s.Frontier.InFlight), "in_flight")
			out(float64(s.Pending.Outbox), "outbox")
			out(float64(s.Pending.Unclaimed), "unclaimed")
		}, "state"),
	gauge("peerd_hosts", "Hosts that this peer crawls.",
		number(func(s *State) int { return s.Frontier.Hosts })),
	gauge("peerd_servers",
		"Addresses of web servers with queued URLs: ready may be asked now, waiting must be left "+
			"alone for some time, mostly out of politeness.",
		func(s *State, out emit) {
			out(float64(s.ServersReady), "ready")
			out(float64(s.ServersWaiting), "waiting")
		}, "state"),
	gauge("peerd_worker_wait_seconds",
		"Recent mean time that a URL waited for a free worker after politeness allowed its fetch.",
		one(func(s *State) float64 { return s.WorkerWait.Seconds() })),
	counter("peerd_politeness_pauses_total", "Pauses of a server after a request, for politeness.",
		number(func(s *State) int64 { return s.Pauses.Count })),
	counter("peerd_politeness_pause_seconds_total",
		"Sum of the pauses of all servers after requests, for politeness.",
		one(func(s *State) float64 { return s.Pauses.Total.Seconds() })),
	gauge("peerd_blocked",
		"1 if this peer fetches nothing because it is offline, is paused, has too little space, "+
			"is outside its hours, has used up its quota, is not heard by enough witnesses, or "+
			"another process has its key; else 0.",
		func(s *State, out emit) {
			for reason, on := range s.Blocked {
				v := 0.0
				if on {
					v = 1
				}
				out(v, reason)
			}
		}, "reason"),
	counter("peerd_pages_fetched_total", "Pages fetched for the first time.",
		number(func(s *State) int64 { return s.Counters.Pages })),
	counter("peerd_revisits_total", "Responses to later fetches of a page.",
		number(func(s *State) int64 { return s.Counters.Revisits })),
	counter("peerd_revisits_not_modified_total", "Responses to revisits with HTTP status 304.",
		number(func(s *State) int64 { return s.Counters.NotModified })),
	counter("peerd_revisits_changed_total", "Revisits that found changed content.",
		number(func(s *State) int64 { return s.Counters.Changed })),
	counter("peerd_web_received_bytes_total",
		"Bytes of bodies received from web servers in complete responses.",
		number(func(s *State) int64 { return s.Counters.Bytes })),
	counter("peerd_urls_seen_total", "URLs that were new and accepted.",
		number(func(s *State) int64 { return s.Counters.Seen })),
	counter("peerd_urls_dropped_total",
		"URLs that were found but not accepted, by the heuristic against crawler traps; limit is "+
			"a limit of the network.",
		counts(func(s *State) map[string]int64 { return s.Dropped }), "reason"),
	counter("peerd_pages_marked_total", "Fetched pages with a property, such as duplicate.",
		counts(func(s *State) map[string]int64 { return s.Marked }), "mark"),
	gauge("peerd_urls_given_up", "URLs that are not tried any more, by reason.",
		func(s *State, out emit) {
			out(float64(s.GivenUp.Failed), "failed")
			out(float64(s.GivenUp.RobotsDenied), "robots_denied")
		}, "reason"),
	gauge("peerd_disk_free_bytes", "Free space of the file system of the home directory.",
		number(func(s *State) int64 { return s.DiskFree })),
	gauge("peerd_disk_min_free_bytes",
		"Free space below which nothing is fetched: the setting crawl.min_free.",
		number(func(s *State) int64 { return s.DiskMinFree })),
	gauge("peerd_archive_size_bytes", "Size of the archive; only with an archive.",
		archived(func(a *Archive) int64 { return a.Bytes })),
	gauge("peerd_archive_quota_bytes",
		"Maximum size of the archive, 0 without one: the setting archive.quota; only with an "+
			"archive.",
		archived(func(a *Archive) int64 { return a.Quota })),
	counter("peerd_archive_refused_total",
		"Responses that did not fit into the archive; only with an archive.",
		archived(func(a *Archive) int64 { return a.Refused })),
}

// ownerTable lists the metrics of the ownership of subnets.
var ownerTable = []row{
	gauge("peerd_subnets",
		"Subnets of this peer, each in one state: estimating while the nearest peer is searched "+
			"for, owned, leaving, or unverified while another peer may own it.",
		func(s *State, out emit) {
			out(float64(s.Subnets.Estimating), "estimating")
			out(float64(s.Subnets.Owned), "owned")
			out(float64(s.Subnets.Leaving), "leaving")
			out(float64(s.Subnets.Unverified), "unverified")
		}, "state"),
	counter("peerd_handovers_total", "Subnets that came from other peers, or went to them.",
		func(s *State, out emit) {
			out(float64(s.Counters.HandoversIn), "in")
			out(float64(s.Counters.HandoversOut), "out")
		}, "direction"),
	counter("peerd_moves_total", "Handovers to another peer because it had become nearer.",
		number(func(s *State) int64 { return s.Owner.Moves })),
	counter("peerd_takeovers_total", "Subnets that came to this peer because their owner failed.",
		number(func(s *State) int64 { return s.Owner.Takeovers })),
	counter("peerd_estimations_total",
		"Pages fetched at the request of the owner of their subnet: requested by this peer, or "+
			"served for other peers.",
		func(s *State, out emit) {
			out(float64(s.Counters.EstimationsRequested), "requested")
			out(float64(s.Counters.EstimationsServed), "served")
		}, "role"),
	counter("peerd_scouts_total",
		"Pages that other peers fetched to check the owner of a decided subnet again.",
		number(func(s *State) int64 { return s.Owner.Scouts })),
	counter("peerd_probes_total",
		"Measurements, by any peer, that decided on the owners of this peer's subnets.",
		number(func(s *State) int64 { return s.Counters.Probes })),
	counter("peerd_probe_connections_total",
		"Connections without a request that this peer opened to web servers.",
		number(func(s *State) int64 { return s.Counters.Connects })),
	counter("peerd_batches_total", "Batches of URLs sent to other peers, or received from them.",
		func(s *State, out emit) {
			out(float64(s.Counters.BatchesSent), "sent")
			out(float64(s.Counters.BatchesReceived), "received")
		}, "direction"),
	counter("peerd_batch_urls_total", "URLs in batches sent to other peers, or received from them.",
		func(s *State, out emit) {
			out(float64(s.Counters.URLsSent), "sent")
			out(float64(s.Counters.URLsReceived), "received")
		}, "direction"),
	gauge("peerd_owner_map_subnets", "Decided subnets of all peers that this peer knows of.",
		number(func(s *State) int { return s.OwnerMap.Subnets })),
}

// peerTable lists the metrics of the overlay network.
var peerTable = []row{
	gauge("peerd_peers_known", "Other peers that this one knows.",
		number(func(s *State) int { return s.PeersKnown })),
	gauge("peerd_peers_connected", "Other peers that this one is connected to.",
		number(func(s *State) int { return s.PeersConnected })),
	counter("peerd_peer_sent_bytes_total",
		"Bytes sent to other peers on streams, by protocol, without framing and encryption.",
		func(s *State, out emit) {
			for protocol, b := range s.Traffic {
				out(float64(b.Sent), protocol)
			}
		}, "protocol"),
	counter("peerd_peer_received_bytes_total",
		"Bytes received from other peers on streams, by protocol, without framing and encryption.",
		func(s *State, out emit) {
			for protocol, b := range s.Traffic {
				out(float64(b.Received), protocol)
			}
		}, "protocol"),
	gauge("peerd_traffic_month_bytes",
		"Bytes sent and received in this calendar month (UTC); only with a monthly volume.",
		ofMonth(func(m *Month) int64 { return m.Bytes })),
	gauge("peerd_traffic_volume_bytes",
		"Bytes that may be sent and received in a month: the setting traffic.monthly_volume.",
		ofMonth(func(m *Month) int64 { return m.Volume })),
	gauge("peerd_coordinate_error_ratio",
		"Estimated relative error of this peer's coordinate, 0 to 1; that of a new peer is 1.",
		one(func(s *State) float64 { return s.Coordinate.Error })),
	gauge("peerd_coordinate_height_seconds",
		"Part of this peer's coordinate for its access link, which all its paths share.",
		one(func(s *State) float64 { return seconds(s.Coordinate.Height) })),
	counter("peerd_coordinate_moved_seconds_total",
		"Length of the path of this peer's coordinate; its rate is the drift.",
		one(func(s *State) float64 { return seconds(s.Coordinate.Moved) })),
	gauge("peerd_round_trip_prediction_ratio",
		"Round-trip times predicted by coordinates divided by measured ones, over the other "+
			"peers: percentiles. 1 is exact; missing until a round trip was measured.",
		func(s *State, out emit) {
			if n := len(s.Coordinate.Ratios); n > 0 {
				out(s.Coordinate.Ratios[(n-1)/10], "10")
				out(s.Coordinate.Ratios[(n-1)/2], "50")
				out(s.Coordinate.Ratios[(n-1)*9/10], "90")
			}
		}, "percentile"),
}

// counts is a metric with one series for each name.
func counts(of func(s *State) map[string]int64) func(*State, emit) {
	return func(s *State, out emit) {
		for name, n := range of(s) {
			out(float64(n), name)
		}
	}
}

// archived is a metric of peers with an archive.
func archived(value func(a *Archive) int64) func(*State, emit) {
	return func(s *State, out emit) {
		if s.Archive != nil {
			out(float64(value(s.Archive)))
		}
	}
}

// ofMonth is a metric of peers with a monthly volume.
func ofMonth(value func(m *Month) int64) func(*State, emit) {
	return func(s *State, out emit) {
		if s.Month != nil {
			out(float64(value(s.Month)))
		}
	}
}

// seconds converts milliseconds.
func seconds(ms float64) float64 { return ms / 1000 }
