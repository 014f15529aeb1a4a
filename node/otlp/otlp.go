package otlp

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	maxWaiting = 4096            // spans
	maxBatch   = 512             // spans of a request
	sendEvery  = 5 * time.Second // if there are fewer
	timeout    = 10 * time.Second
	complain   = 10 * time.Minute // between two messages about a collector that fails
)

// A Span is something that has ended.
type Span struct {
	Name       string
	Start, End time.Time
	Attrs      []Attr
	Error      string // "": it succeeded
	Parts      []Span // what it consisted of
}

// An Attr is an attribute. Value is a string or an integer.
type Attr struct {
	Key   string
	Value any
}

// Config configures an Exporter.
type Config struct {
	// Endpoint is the URL to which spans are sent, such as http://127.0.0.1:4318/v1/traces.
	Endpoint string
	// Resource describes the process, such as service.name.
	Resource []Attr
	Client   *http.Client
	Logger   *slog.Logger
}

// An Exporter sends spans. It is safe for concurrent use.
type Exporter struct {
	cfg     Config
	waiting chan Span
	lost    atomic.Int64
	told    time.Time // owned by Run
}

// New returns an Exporter, which sends nothing until it runs.
func New(c Config) *Exporter { return &Exporter{cfg: c, waiting: make(chan Span, maxWaiting)} }

// Add adds a span. If too many wait, it is lost.
func (e *Exporter) Add(s Span) {
	select {
	case e.waiting <- s:
	default:
		e.lost.Add(1)
	}
}

// Run sends spans until ctx ends, and then those that wait, for at most ten seconds. It closes the
// connections of the client.
func (e *Exporter) Run(ctx context.Context) error {
	defer e.cfg.Client.CloseIdleConnections()
	tick := time.NewTicker(sendEvery)
	defer tick.Stop()
	var batch []Span
	for {
		select {
		case s := <-e.waiting:
			if batch = append(batch, s); len(batch) < maxBatch {
				continue
			}
		case <-tick.C:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			e.flush(context.WithoutCancel(ctx), batch)
			return nil
		}
		e.send(ctx, batch)
		batch = batch[:0]
	}
}

// flush sends a batch and the spans that wait, within timeout.
func (e *Exporter) flush(ctx context.Context, batch []Span) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for ctx.Err() == nil {
		for len(e.waiting) > 0 && len(batch) < maxBatch {
			batch = append(batch, <-e.waiting)
		}
		if len(batch) == 0 {
			return
		}
		e.send(ctx, batch)
		batch = batch[:0]
	}
}

// send sends spans once. If that fails, they are lost.
func (e *Exporter) send(ctx context.Context, batch []Span) {
	if len(batch) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := e.post(ctx, batch)
	if err != nil {
		e.lost.Add(int64(len(batch)))
	}
	if lost := e.lost.Load(); lost > 0 && time.Since(e.told) > complain {
		e.told = time.Now()
		e.lost.Store(0)
		e.cfg.Logger.Warn("lost spans for the collector of traces; check traces.endpoint",
			"endpoint", e.cfg.Endpoint, "spans", lost, "err", err)
	}
}

func (e *Exporter) post(ctx context.Context, batch []Span) error {
	body, err := json.Marshal(encode(e.cfg.Resource, batch))
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.cfg.Endpoint,
		bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := e.cfg.Client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection is kept
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("status %s", resp.Status)
	}
	return nil
}

// object is a JSON object. The names are those of opentelemetry/proto/trace/v1/trace.proto in the
// JSON mapping of OTLP.
type object = map[string]any

func encode(resource []Attr, batch []Span) object {
	var spans []object
	for _, s := range batch {
		spans = appendSpan(spans, s, id(16), "")
	}
	return object{"resourceSpans": []object{{
		"resource":   object{"attributes": attributes(resource)},
		"scopeSpans": []object{{"scope": object{"name": "peerd"}, "spans": spans}},
	}}}
}

// appendSpan appends a span and its parts.
func appendSpan(to []object, s Span, trace, parent string) []object {
	o := object{
		"traceId": trace, "spanId": id(8), "name": s.Name, "kind": 1, // SPAN_KIND_INTERNAL
		"startTimeUnixNano": strconv.FormatInt(s.Start.UnixNano(), 10),
		"endTimeUnixNano":   strconv.FormatInt(s.End.UnixNano(), 10),
		"attributes":        attributes(s.Attrs),
	}
	if parent != "" {
		o["parentSpanId"] = parent
	}
	if s.Error != "" {
		o["status"] = object{"code": 2, "message": s.Error} // STATUS_CODE_ERROR
	}
	to = append(to, o)
	for _, p := range s.Parts {
		to = appendSpan(to, p, trace, o["spanId"].(string))
	}
	return to
}

func attributes(all []Attr) []object {
	list := make([]object, len(all))
	for i, a := range all {
		value := object{"stringValue": fmt.Sprint(a.Value)}
		switch a.Value.(type) {
		case int, int64, uint64:
			value = object{"intValue": fmt.Sprint(a.Value)} // 64-bit integers are strings
		}
		list[i] = object{"key": a.Key, "value": value}
	}
	return list
}

// id returns a random identifier of n bytes.
func id(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
