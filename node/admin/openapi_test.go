package admin

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write openapi.json")

// TestOpenAPI checks that openapi.json is what the table of routes and the types give. With
// -update, it writes the file.
func TestOpenAPI(t *testing.T) {
	s := &Server{cfg: Config{Node: newFake(), Metrics: http.NotFoundHandler(),
		Dashboard: http.NotFoundHandler()}}
	d := describer{comments: comments(t), schemas: map[string]any{}}
	want, err := json.MarshalIndent(d.document(t, s.table()), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(short(want), '\n')
	if *update {
		if err := os.WriteFile("openapi.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(want, OpenAPI) {
		t.Error("openapi.json is stale; run: go generate ./node/admin")
	}
}

// short returns an indented document with one line for each schema and each path: every program has
// the document.
func short(indented []byte) (b []byte) {
	const schemas = 3 // how far they are indented
	for line := range bytes.Lines(indented) {
		text := bytes.TrimLeft(line, " ")
		if depth := len(line) - len(text); len(b) > 0 && depth <= schemas &&
			(depth < schemas || text[0] == '"') {
			b = append(b, '\n')
		}
		b = append(b, bytes.TrimSuffix(text, []byte("\n"))...)
	}
	return b
}

// describer builds a document of OpenAPI 3.1.
type describer struct {
	comments map[string]string // of types, and of fields as Type.Field
	schemas  map[string]any
}

type object = map[string]any

func (d *describer) document(t *testing.T, table []route) object {
	paths := object{}
	for _, r := range table {
		method, path, _ := strings.Cut(r.pattern, " ")
		if r.summary == "" {
			t.Errorf("%s has no summary", r.pattern)
		}
		item, _ := paths[path].(object)
		if item == nil {
			item = object{}
			paths[path] = item
		}
		item[strings.ToLower(method)] = d.operation(r, method, path)
	}
	return object{
		"openapi": "3.1.0",
		"info": object{"title": "peerd admin API", "version": "1",
			"license": object{"name": "Apache License 2.0", "identifier": "Apache-2.0"},
			"description": "How an operator inspects and controls a peer. Fields may be added; " +
				"none changes its meaning or disappears within version 1."},
		"servers": []any{object{"url": "http://127.0.0.1"}},
		"paths":   paths,
		"components": object{"schemas": d.schemas, "securitySchemes": object{
			"full": object{"type": "http", "scheme": "bearer",
				"description": "the token in api.json"},
			"read": object{"type": "http", "scheme": "bearer",
				"description": "the token in read.token, which permits only to read"},
			"session": object{"type": "apiKey", "in": "cookie", "name": "peerd-session-PORT",
				"description": "the cookie of a browser that has logged in, which may only read"},
		}},
	}
}

func (d *describer) operation(r route, method, path string) object {
	name := strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(path, "-"), "-")
	ok := object{"description": "success"}
	switch {
	case r.response != nil:
		ok["content"] = object{mediaJSON: object{"schema": d.schema(reflect.TypeOf(r.response))}}
	default:
		ok["content"] = object{r.media: object{}}
	}
	if reflect.DeepEqual(r.query, listQuery) {
		ok["headers"] = object{totalHeader: object{"schema": object{"type": "integer"},
			"description": "rows that the parameters select, without limit and offset"}}
	}
	op := object{"operationId": strings.ToLower(method) + "-" + name, "summary": r.summary,
		"responses": object{"200": ok, "default": object{"description": "failure",
			"content": object{
				mediaJSON: object{"schema": d.schema(reflect.TypeFor[errorBody]())},
			}}}}
	full, read, session := object{
		"full": []any{},
	}, object{
		"read": []any{},
	}, object{
		"session": []any{},
	}
	op["security"] = map[access][]any{readAccess: {full, read, session}, fullAccess: {full},
		publicAccess: {}}[r.access]
	var query []any
	for _, p := range r.query {
		query = append(query, object{"name": p.name, "in": "query", "description": p.meaning,
			"schema": object{"type": p.kind}})
	}
	if query != nil {
		op["parameters"] = query
	}
	if r.request != nil {
		op["requestBody"] = object{"required": true, "content": object{
			mediaJSON: object{"schema": d.schema(reflect.TypeOf(r.request))}}}
	}
	return op
}

// schema returns the JSON Schema of a type. Structs with names become components.
func (d *describer) schema(t reflect.Type) object {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t.Kind() == reflect.Pointer:
		return object{"anyOf": []any{d.schema(t.Elem()), object{"type": "null"}}}
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Array:
		return object{"type": "array", "items": d.schema(t.Elem())}
	case t.Kind() == reflect.Map:
		return object{"type": "object", "additionalProperties": d.schema(t.Elem())}
	case t.Kind() == reflect.Struct && t.Name() == "":
		return object{"type": "object"}
	case t.Kind() == reflect.Struct:
		if d.schemas[t.Name()] == nil {
			d.schemas[t.Name()] = object{} // ends recursion
			d.schemas[t.Name()] = d.structure(t)
		}
		return object{"$ref": "#/components/schemas/" + t.Name()}
	case t.Kind() == reflect.String && t.Name() != "string":
		return object{"type": "string", "description": d.comments[t.Name()]}
	case t.Kind() == reflect.String:
		return object{"type": "string"}
	case t.Kind() == reflect.Bool:
		return object{"type": "boolean"}
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64:
		return object{"type": "integer"}
	}
	return object{"type": "number"}
}

func (d *describer) structure(t reflect.Type) object {
	properties, required := object{}, []string{}
	for i := range t.NumField() {
		f := t.Field(i)
		s := d.schema(f.Type)
		if c := d.comments[t.Name()+"."+f.Name]; c != "" {
			s["description"] = c
		}
		properties[jsonName(f)] = s
		if !strings.Contains(f.Tag.Get("json"), "omitempty") {
			required = append(required, jsonName(f))
		}
	}
	slices.Sort(required)
	return object{"type": "object", "properties": properties, "required": required,
		"description": d.comments[t.Name()]}
}

// comments reads the comments of the types and their fields.
func comments(t *testing.T) map[string]string {
	all := map[string]string{}
	text := func(groups ...*ast.CommentGroup) string {
		for _, g := range groups {
			if s := strings.Join(strings.Fields(g.Text()), " "); s != "" {
				return s
			}
		}
		return ""
	}
	for _, name := range []string{"types.go", "types_view.go", "errors.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			g, ok := n.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				return true
			}
			spec := g.Specs[0].(*ast.TypeSpec)
			all[spec.Name.Name] = text(g.Doc, spec.Doc)
			if s, ok := spec.Type.(*ast.StructType); ok {
				for _, field := range s.Fields.List {
					for _, id := range field.Names {
						all[spec.Name.Name+"."+id.Name] = text(field.Doc, field.Comment)
					}
				}
			}
			return false
		})
	}
	return all
}
