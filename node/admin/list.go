package admin

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"peerd/internal/order"
)

// Limits of lists.
const (
	// MaxRows bounds the rows of one response.
	MaxRows = 100_000
	// defaultRows is the number of rows without the parameter limit.
	defaultRows = 1000
	// maxSearch bounds the parameter q.
	maxSearch = 256
)

// totalHeader names the number of rows that the parameters select, without limit and offset.
const totalHeader = "Total-Count"

// listQuery are the parameters of all lists.
var listQuery = []parameter{
	{"limit", "integer", "number of rows, at most 100000; 1000 if absent"},
	{"offset", "integer", "number of rows to leave out at the beginning"},
	{"q", "string", "only rows with this text in a field, regardless of case"},
	{"sort", "string", "name of a field, as in proxy.error; with - before it, in descending order"},
}

// listRoute returns a route that answers with a part of rows.
func listRoute[T any](s *Server, path, summary string, rows func() ([]T, error)) route {
	return route{pattern: "GET " + path, access: readAccess, summary: summary, query: listQuery,
		response: []T{}, handler: func(w http.ResponseWriter, r *http.Request) {
			var some []T
			total := 0
			all, err := rows()
			if err == nil {
				some, total, err = selectRows(all, r.URL.Query())
			}
			if err != nil {
				s.fail(w, r, err)
				return
			}
			w.Header().Set(totalHeader, strconv.Itoa(total))
			s.reply(w, r, some)
		}}
}

// selectRows returns the rows that the parameters of a list select, and how many there are
// without limit and offset. It does not change rows.
func selectRows[T any](rows []T, query url.Values) (some []T, total int, err error) {
	limit, err := number(query, "limit", 1, MaxRows, defaultRows)
	if err != nil {
		return nil, 0, err
	}
	offset, err := number(query, "offset", 0, 1<<40, 0)
	if err != nil {
		return nil, 0, err
	}
	q := query.Get("q")
	if len(q) > maxSearch {
		return nil, 0, fmt.Errorf("%w: q has more than %d bytes", ErrBadRequest, maxSearch)
	}
	if q = strings.ToLower(q); q != "" {
		rows = slices.DeleteFunc(slices.Clone(rows), func(v T) bool {
			return !contains(reflect.ValueOf(v), q)
		})
	}
	if by := query.Get("sort"); by != "" {
		if rows, err = sorted(rows, by); err != nil {
			return nil, 0, err
		}
	}
	from := min(offset, len(rows))
	return rows[from:min(from+limit, len(rows))], len(rows), nil
}

func number(query url.Values, name string, low, high, absent int) (int, error) {
	text := query.Get(name)
	if text == "" {
		return absent, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("%w: %s=%q, want a number from %d to %d", ErrBadRequest, name, text,
			low, high)
	}
	return n, nil
}

// contains reports whether a string in v contains q, which is in lower case.
func contains(v reflect.Value, q string) bool {
	switch v.Kind() {
	case reflect.String:
		return strings.Contains(strings.ToLower(v.String()), q)
	case reflect.Slice:
		for i := range v.Len() {
			if contains(v.Index(i), q) {
				return true
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && contains(v.Field(i), q) {
				return true
			}
		}
	}
	return false
}

// sorted returns rows in the order of a field. Rows without a value come last.
func sorted[T any](rows []T, by string) ([]T, error) {
	name, descending := strings.CutPrefix(by, "-")
	path, ok := fieldPath(reflect.TypeFor[T](), name)
	if !ok {
		return nil, fmt.Errorf("%w: sort=%q is not a field with an order", ErrBadRequest, by)
	}
	type row struct {
		v   T
		key reflect.Value // invalid: none
	}
	all := make([]row, len(rows))
	for i, v := range rows {
		all[i] = row{v, fieldValue(reflect.ValueOf(v), path)}
	}
	order.SortStableFunc(all, func(a, b row) int {
		switch {
		case !a.key.IsValid() || !b.key.IsValid():
			return cmp.Compare(btoi(b.key.IsValid()), btoi(a.key.IsValid()))
		case descending:
			return compareValues(b.key, a.key)
		}
		return compareValues(a.key, b.key)
	})
	out := make([]T, len(all))
	for i, r := range all {
		out[i] = r.v
	}
	return out, nil
}

// fieldPath returns the indices of the field with a JSON name, such as proxy.error.
func fieldPath(t reflect.Type, name string) (path []int, ok bool) {
	for part := range strings.SplitSeq(name, ".") {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return nil, false
		}
		found := false
		for i := range t.NumField() {
			if f := t.Field(i); jsonName(f) == part {
				path, t, found = append(path, i), f.Type, true
				break
			}
		}
		if !found {
			return nil, false
		}
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return path, t == reflect.TypeFor[time.Time]() || t.Kind() == reflect.String ||
		t.Kind() == reflect.Bool || t.Kind() >= reflect.Int && t.Kind() <= reflect.Float64
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// fieldValue follows a path of fieldPath. It is invalid if a pointer on the way is nil.
func fieldValue(v reflect.Value, path []int) reflect.Value {
	for _, i := range path {
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if !v.IsValid() {
			return v
		}
		v = v.Field(i)
	}
	if v.Kind() == reflect.Pointer {
		return v.Elem()
	}
	return v
}

func compareValues(a, b reflect.Value) int {
	if at, ok := a.Interface().(time.Time); ok {
		return at.Compare(b.Interface().(time.Time))
	}
	switch {
	case a.Kind() == reflect.String:
		return strings.Compare(a.String(), b.String())
	case a.Kind() == reflect.Bool:
		return cmp.Compare(btoi(a.Bool()), btoi(b.Bool()))
	case a.CanInt():
		return cmp.Compare(a.Int(), b.Int())
	case a.CanUint():
		return cmp.Compare(a.Uint(), b.Uint())
	}
	return cmp.Compare(a.Float(), b.Float())
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
