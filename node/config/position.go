package config

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/pelletier/go-toml/v2/unstable"
)

// keyPos is the position of a key in a file.
type keyPos struct {
	key  string // with dots, as in errors
	in   string // the table that it is in; "": none
	at   int    // offset in bytes
	bare string // its value, if that is no string, list or table
}

// place returns ":row:column" of a position in the text.
func (s keyPos) place(text []byte) string {
	before := text[:s.at]
	return fmt.Sprintf(":%d:%d", bytes.Count(before, []byte("\n"))+1,
		s.at-bytes.LastIndexByte(before, '\n'))
}

// keyPositions returns the keys and tables of a file in order, up to the first syntax error. Tables
// of a list are called name[1], name[2] and so on. It omits keys of tables within other lists.
func keyPositions(text []byte) (all []keyPos) {
	var p unstable.Parser
	p.Reset(text)
	table, tables := "", map[string]int{}
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			s := keyPosOf(&p, e, "")
			if e.Kind == unstable.ArrayTable {
				tables[s.key]++
				s.key = fmt.Sprintf("%s[%d]", s.key, tables[s.key])
			}
			table = s.key
			all = append(all, s)
		case unstable.KeyValue:
			all = appendKeyPositions(all, &p, e, table)
		}
	}
	return all
}

// appendKeyPositions adds a key and, if its value is a table, the keys of that.
func appendKeyPositions(
	all []keyPos, p *unstable.Parser, kv *unstable.Node, table string,
) []keyPos {
	s := keyPosOf(p, kv, table)
	value := kv.Value()
	switch value.Kind {
	case unstable.Integer, unstable.Float, unstable.Bool, unstable.LocalDate, unstable.LocalTime,
		unstable.LocalDateTime, unstable.DateTime:
		s.bare = string(value.Data)
	}
	all = append(all, s)
	if value.Kind == unstable.InlineTable {
		for it := value.Children(); it.Next(); {
			all = appendKeyPositions(all, p, it.Node(), s.key)
		}
	}
	return all
}

func keyPosOf(p *unstable.Parser, e *unstable.Node, table string) keyPos {
	s := keyPos{key: table, in: table, at: -1}
	for it := e.Key(); it.Next(); {
		n := it.Node()
		if s.at < 0 {
			s.at = int(n.Raw.Offset)
		}
		s.key = strings.TrimPrefix(s.key+"."+string(n.Data), ".")
	}
	return s
}

// inFile prefixes every fault of err with the name of a file and, if the fault starts with a key
// in the file or in a table of the file, with its position.
func inFile(name string, text []byte, err error) error {
	if err == nil {
		return nil
	}
	places := map[string]func() string{}
	for _, s := range keyPositions(text) {
		key := strings.ToLower(s.key)
		if places[key] == nil {
			places[key] = sync.OnceValue(func() string { return s.place(text) })
		}
	}
	var f faults
	for line := range strings.SplitSeq(err.Error(), "\n") {
		at, key := "", strings.ToLower(firstWord(line))
		for ; key != "" && at == ""; key = key[:max(0, strings.LastIndexByte(key, '.'))] {
			if place := places[key]; place != nil {
				at = place()
			}
		}
		f.addf("%s%s: %s", name, at, line)
	}
	return f.err()
}

// firstWord returns s up to the first space or colon.
func firstWord(s string) string {
	if i := strings.IndexAny(s, " :"); i >= 0 {
		return s[:i]
	}
	return s
}

// unquotedValueError finds the first unquoted value that its setting cannot parse, such as 5 in
// place of "5s". The decoder does not report which it is.
func unquotedValueError(text []byte, v any) (s keyPos, err error) {
	for _, s := range keyPositions(text) {
		field := fieldOf(reflect.TypeOf(v), s.key)
		if s.bare == "" || field == nil {
			continue
		}
		if u, ok := reflect.New(field).Interface().(encoding.TextUnmarshaler); ok {
			if err := u.UnmarshalText([]byte(s.bare)); err != nil {
				return s, err
			}
		}
	}
	return keyPos{}, errors.New("a value has the wrong type")
}

// fieldOf returns the type of the setting with that key; nil if there is none.
func fieldOf(t reflect.Type, key string) reflect.Type {
	for name := range strings.SplitSeq(key, ".") {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return nil
		}
		name, _, _ = strings.Cut(name, "[")
		found := false
		for i := range t.NumField() {
			if strings.EqualFold(t.Field(i).Tag.Get("toml"), name) {
				t, found = t.Field(i).Type, true
				break
			}
		}
		if !found {
			return nil
		}
	}
	return t
}
