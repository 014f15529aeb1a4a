package config

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/pelletier/go-toml/v2"
)

// A Setting is a setting with its key, with dots.
type Setting struct {
	Key   string
	Value any
}

// Settings returns all settings, those of a table before those of the tables in it.
func (c Config) Settings() []Setting { return settings(reflect.ValueOf(c), "") }

// settings returns those of a table. A struct that is written as text is a value.
func settings(table reflect.Value, prefix string) (all []Setting) {
	var nested []Setting
	for i := range table.NumField() {
		key, v := prefix+table.Type().Field(i).Tag.Get("toml"), table.Field(i)
		_, isText := v.Interface().(encoding.TextMarshaler)
		if v.Kind() == reflect.Struct && !isText {
			nested = append(nested, settings(v, key+".")...)
		} else {
			all = append(all, Setting{key, v.Interface()})
		}
	}
	return append(all, nested...)
}

// Keys returns the keys of all settings in config.toml, with dots, sorted.
func Keys() (all []string) {
	for _, s := range (Config{}).Settings() {
		all = append(all, s.Key)
	}
	slices.Sort(all)
	return all
}

// Text returns the setting with that key, or all if it is "", as TOML; of a table its rows. The
// error for a key that does not exist matches ErrInvalid.
func (c Config) Text(key string) (string, error) {
	if key == "" {
		text, err := toml.Marshal(c)
		return string(text), err
	}
	all := c.Settings()
	i := slices.IndexFunc(all, func(s Setting) bool { return s.Key == key })
	if i < 0 {
		return "", unknownKey(key)
	}
	if v := all[i].Value; reflect.TypeOf(v).Kind() == reflect.Map {
		rows, err := toml.Marshal(v)
		return string(rows), err
	}
	line, err := toml.Marshal(map[string]any{"v": all[i].Value})
	return strings.TrimPrefix(string(line), "v = "), err
}

func unknownKey(key string) error {
	return asInvalid(fmt.Errorf("no setting has the key %q; \"peerd config show\" lists all",
		clip(key)))
}

// Set changes one setting in config.toml, or adds it, and keeps all other lines. value is TOML, or
// a string without quotes. If the file would not be valid, it is not changed, and the error matches
// ErrInvalid.
func (h Home) Set(key, value string) error {
	if !slices.Contains(Keys(), key) {
		return unknownKey(key)
	}
	text, err := readFile(h.ConfigFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read config: %w", err)
	}
	if _, err := parseConfig(h.ConfigFile(), text); err != nil {
		return err // an edit could hide the fault
	}
	if strings.ContainsAny(value, "\r\n") {
		return asInvalid(fmt.Errorf("%s: the value has more than one line", key))
	}
	quoted, _ := toml.Marshal(map[string]string{"v": value}) // strings always encode
	asString := strings.TrimSpace(strings.TrimPrefix(string(quoted), "v = "))
	var first error
	for _, v := range []string{value, asString} {
		edited := setLine(text, key, v)
		_, err := parseConfig(h.ConfigFile(), edited)
		if err == nil {
			return renameio.WriteFile(h.ConfigFile(), edited, 0o644)
		}
		if first == nil || toml.Unmarshal([]byte("v = "+value), new(any)) != nil {
			first = err // of a value that is not TOML, that as a string
		}
	}
	return first
}

// setLine returns text, which is valid, with the value of a key replaced, or with a new line for it
// at the beginning of its table.
func setLine(text []byte, key, value string) []byte {
	all := keyPositions(text)
	for i, s := range all {
		if !strings.EqualFold(s.key, key) { // as the decoder compares them
			continue
		}
		start, end := lineStart(text, s.at), len(text)
		if len(bytes.TrimSpace(text[start:s.at])) > 0 && s.bare != "" { // in a table on one line
			old := s.at + bytes.IndexByte(text[s.at:], '=')
			old += bytes.Index(text[old:], []byte(s.bare))
			return slices.Concat(text[:old], []byte(value), text[old+len(s.bare):])
		}
		if i+1 < len(all) { // comments between the two stay
			end = all[i+1].at
		}
		line := strings.TrimPrefix(s.key[len(s.in):], ".") + " = " + value + "\n"
		return slices.Concat(text[:start], []byte(line), text[min(end, valueEnd(text, s.at)):])
	}
	table, name := "", key
	if i := strings.LastIndexByte(key, '.'); i >= 0 {
		table, name = key[:i], key[i+1:]
	}
	line := []byte(name + " = " + value + "\n")
	if table == "" {
		return slices.Concat(line, text)
	}
	for _, s := range all {
		if strings.EqualFold(s.key, table) {
			end := lineEnd(text, s.at)
			return slices.Concat(text[:end], line, text[end:])
		}
	}
	return slices.Concat(text, []byte("\n["+table+"]\n"), line)
}

func lineStart(text []byte, at int) int { return bytes.LastIndexByte(text[:at], '\n') + 1 }

func lineEnd(text []byte, at int) int {
	if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(text)
}

// valueEnd returns the end of the last line of the setting that begins at a position: the first one
// up to which the text is valid TOML.
func valueEnd(text []byte, at int) int {
	for end := lineEnd(text, at); ; end = lineEnd(text, end) {
		var v any
		if end == len(text) || toml.Unmarshal(text[lineStart(text, at):end], &v) == nil {
			return end
		}
	}
}
