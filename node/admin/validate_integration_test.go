//go:build integration

package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"

	"peerd/node/admin"
	"peerd/node/admin/admintest"
)

// api is api.json.
type api struct{ Addr, Token string }

// serveGenerated serves a generated peer until the end of the test.
func serveGenerated(t *testing.T) api {
	t.Helper()
	file := filepath.Join(t.TempDir(), "api.json")
	s, err := admin.Listen(admin.Config{Addr: "127.0.0.1:0", File: file,
		Node: admintest.Generate(20, 50, 1)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return api{Addr: s.Addr(), Token: admin.AwaitToken(t, file)}
}

// TestDocumentIsValid checks openapi.json by the schema of OpenAPI 3.1, and the responses of a
// running server by openapi.json.
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
	var paths struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct {
				Content map[string]json.RawMessage
			}
		}
	}
	if err := json.Unmarshal(admin.OpenAPI, &paths); err != nil {
		t.Fatal(err)
	}
	server := serveGenerated(t)
	checked := 0
	for path, item := range paths.Paths {
		get, ok := item["get"]
		if _, isJSON := get.Responses["200"].Content["application/json"]; !ok || !isJSON ||
			strings.HasSuffix(path, ".json") {
			continue
		}
		if path == "/v1/placement" {
			path += "?of=a.example"
		}
		if path == "/v1/trace" {
			path += "?url=http://a.example/"
		}
		req, resp := get1(t, server, path)
		if ok, faults := v.GetResponseBodyValidator().ValidateResponseBody(req, resp); !ok {
			for _, f := range faults {
				t.Errorf("GET %s: %s: %s %v", path, f.Message, f.Reason, f.SchemaValidationErrors)
			}
		}
		checked++
	}
	if checked < 15 {
		t.Errorf("checked %d paths, want at least 15", checked)
	}
}

// get1 returns a request with its complete response.
func get1(t *testing.T, server api, path string) (*http.Request, *http.Response) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+server.Addr+path,
		nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+server.Token)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s %v: %s", path, resp.Status, err, body)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return req, resp
}
