//go:build integration

package dashboard_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/errors"

	"peerd/node/admin"
)

// api is api.json.
type api struct{ Addr, Token, file string }

// serveGenerated serves a generated peer until the end of the test.
func serveGenerated(t *testing.T) (a api) {
	t.Helper()
	a.file = serve(t, generate(20, 50, 1))
	text, err := os.ReadFile(a.file)
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestDocumentIsValid checks openapi.json by the schema of OpenAPI 3.1, and by openapi.json a
// request to every route and the response of a running server.
func TestDocumentIsValid(t *testing.T) {
	doc, err := libopenapi.NewDocument(admin.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	v, errs := validator.NewValidator(doc)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if ok, faults := v.ValidateDocument(); !ok {
		for _, f := range faults {
			t.Errorf("openapi.json: %s: %s %v", f.Message, f.Reason, f.SchemaValidationErrors)
		}
	}
	var described struct {
		Paths map[string]map[string]operation
	}
	if err := json.Unmarshal(admin.OpenAPI, &described); err != nil {
		t.Fatal(err)
	}
	server := serveGenerated(t)
	c, err := admin.Dial(server.file)
	if err != nil {
		t.Fatal(err)
	}
	url, err := c.DashboardURL(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(url, "#code=")
	bodies["/v1/login"] = fmt.Sprintf(`{"code":%q}`, code)
	checked := 0
	for path, item := range described.Paths {
		for method, op := range item {
			server.check(t, v, strings.ToUpper(method), path, op)
			checked++
		}
	}
	if checked < 35 {
		t.Errorf("checked %d routes, want all of at least 35", checked)
	}
}

// operation is what the document says of a route.
type operation struct {
	RequestBody *struct{ Required bool }
	Responses   map[string]struct {
		Content map[string]json.RawMessage
	}
}

// queries and bodies are examples of requests.
var (
	queries = map[string]string{
		"/v1/placement": "?of=a.example", "/v1/trace": "?url=http://a.example/",
		"/v1/search": "?q=word&offset=0&limit=5", "/v1/given-up": "?host=a.example",
		"/v1/subnets": "?limit=5&offset=2&sort=-pending&q=10.",
		"/v1/links":   "?after=http://a.example/",
	}
	bodies = map[string]string{
		"/v1/seed":    `{"urls":["http://a.example/"]}`,
		"/v1/changed": `{"urls":["http://a.example/"]}`,
		"/v1/retry":   `{"host":"a.example"}`, "/v1/leave": `{"limit_s":5}`,
		"/v1/robots": `{"host":"a.example","refresh":true}`,
		"/v1/pause":  `{"resume":false,"for_s":5}`,
	}
)

// check sends a request that the document permits, and checks that the response is as described.
func (server api) check(
	t *testing.T, v validator.Validator, method, path string, op operation,
) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel() // ends a stream
	var body io.Reader
	if text := bodies[path]; method == http.MethodPost && op.RequestBody != nil {
		body = strings.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+server.Addr+path+queries[path],
		body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+server.Token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	report := func(what string, faults []*errors.ValidationError) {
		for _, f := range faults {
			t.Errorf("%s %s: %s: %s: %s %v", method, path, what, f.Message, f.Reason,
				f.SchemaValidationErrors)
		}
	}
	if ok, faults := v.ValidateHttpRequestSync(req); !ok {
		report("request", faults)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if _, ok := op.Responses["200"].Content[media]; !ok || resp.StatusCode != http.StatusOK {
		t.Errorf("%s %s: status %s, type %q, want 200 and one of %v", method, path, resp.Status,
			media, slices.Collect(maps.Keys(op.Responses["200"].Content)))
		return
	}
	if media == "text/event-stream" {
		return // it does not end
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	if media != "application/json" || strings.HasSuffix(path, ".json") {
		return
	}
	resp.Body = io.NopCloser(bytes.NewReader(data))
	if ok, faults := v.GetResponseBodyValidator().ValidateResponseBody(req, resp); !ok {
		report("response", faults)
	}
}
