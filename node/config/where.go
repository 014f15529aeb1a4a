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

// A spot is where a key stands in a file.
type spot struct {
	key  string // with dots, as error texts name it
	at   int    // bytes before it
	bare string // its value, if that is neither text, list nor table
}

// place writes ":row:column" of a spot in the text.
func (s spot) place(text []byte) string {
	before := text[:s.at]
	return fmt.Sprintf(":%d:%d", bytes.Count(before, []byte("\n"))+1, s.at-bytes.LastIndexByte(before, '\n'))
}

// spots returns the keys and tables of a file in order, up to the first fault
// of its syntax. Keys of tables within lists are left out: there are none.
func spots(text []byte) (all []spot) {
	var p unstable.Parser
	p.Reset(text)
	table := ""
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			s := spotOf(&p, e, "")
			table = s.key
			all = append(all, s)
		case unstable.KeyValue:
			all = appendSpots(all, &p, e, table)
		}
	}
	return all
}

// appendSpots adds a key, and those of the table that it may have for a value.
func appendSpots(all []spot, p *unstable.Parser, kv *unstable.Node, table string) []spot {
	s := spotOf(p, kv, table)
	value := kv.Value()
	switch value.Kind {
	case unstable.Integer, unstable.Float, unstable.Bool, unstable.LocalDate, unstable.LocalTime, unstable.LocalDateTime, unstable.DateTime:
		s.bare = string(value.Data)
	}
	all = append(all, s)
	if value.Kind == unstable.InlineTable {
		for it := value.Children(); it.Next(); {
			all = appendSpots(all, p, it.Node(), s.key)
		}
	}
	return all
}

func spotOf(p *unstable.Parser, e *unstable.Node, table string) spot {
	s := spot{key: table, at: -1}
	for it := e.Key(); it.Next(); {
		n := it.Node()
		if s.at < 0 {
			s.at = int(n.Raw.Offset)
		}
		s.key = strings.TrimPrefix(s.key+"."+string(n.Data), ".")
	}
	return s
}

// inFile puts the name of a file in front of every fault of err, and the place
// in it if the fault begins with a key that stands there, or whose table does.
func inFile(name string, text []byte, err error) error {
	if err == nil {
		return nil
	}
	places := map[string]func() string{}
	for _, s := range spots(text) {
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

// firstWord returns what stands before the first blank or colon.
func firstWord(s string) string {
	if i := strings.IndexAny(s, " :"); i >= 0 {
		return s[:i]
	}
	return s
}

// bareFault finds the value without quotes that its setting cannot read, such
// as 5 for "5s". The decoder does not say which it is.
func bareFault(text []byte, v any) (s spot, err error) {
	for _, s := range spots(text) {
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
	return spot{}, errors.New("a value is of the wrong kind")
}

// fieldOf returns the type of the setting of that key, nil if there is none.
func fieldOf(t reflect.Type, key string) reflect.Type {
	for name := range strings.SplitSeq(key, ".") {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return nil
		}
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
