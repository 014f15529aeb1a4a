package warc_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/netip"
	"os"
	"strings"
	"time"

	"peerd/store/warc"
)

// exchange returns an HTTP exchange as a fetcher would record it.
func exchange(url, body string) warc.Exchange {
	return warc.Exchange{
		URL:       url,
		Addr:      netip.MustParseAddr("192.0.2.7"),
		Time:      time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Request:   []byte("GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"),
		Response:  []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"),
		Body:      []byte(body),
		Protocols: []string{"http/1.1"},
		Metadata:  []warc.Field{{Name: "fetchTimeMs", Value: "123"}},
	}
}

// tempDir returns an empty directory and a function that removes it.
func tempDir() (dir string, remove func()) {
	dir, err := os.MkdirTemp("", "warc-example-")
	if err != nil {
		log.Fatal(err)
	}
	return dir, func() { os.RemoveAll(dir) }
}

// archiveOf returns the directory of a closed archive with two exchanges.
func archiveOf() (dir string, remove func()) {
	dir, remove = tempDir()
	a, err := warc.Open(dir, warc.Options{MinFree: -1})
	if err != nil {
		log.Fatal(err)
	}
	for _, url := range []string{"http://www.example.com/b", "http://example.com/a?y=2&x=1"} {
		if _, err := a.Append(exchange(url, "<p>Hello</p>")); err != nil {
			log.Fatal(err)
		}
	}
	if err := a.Close(); err != nil {
		log.Fatal(err)
	}
	return dir, remove
}

// An exchange is appended, made durable, and read back.
func Example() {
	dir, remove := tempDir()
	defer remove()
	a, err := warc.Open(dir, warc.Options{
		MinFree: -1, // an archive normally keeps 1 GiB of the disk free
		Info:    []warc.Field{{Name: "software", Value: "peerd"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()

	loc, err := a.Append(exchange("http://example.com/", "<p>Hello</p>"))
	if err != nil {
		log.Fatal(err)
	}
	if err := a.Sync(); err != nil { // now a power failure does not lose it
		log.Fatal(err)
	}

	c, err := a.ReadAt(loc)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %s\n%s\n", c.Type, c.URL, c.Body)
	// Output:
	// response http://example.com/
	// <p>Hello</p>
}

// A page that has not changed is stored as a revisit, without its body.
func ExampleArchive_Append_revisit() {
	dir, remove := tempDir()
	defer remove()
	a, err := warc.Open(dir, warc.Options{MinFree: -1})
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()

	first := exchange("http://example.com/", "<p>Hello</p>")
	loc, err := a.Append(first)
	if err != nil {
		log.Fatal(err)
	}
	second := first
	second.Time = first.Time.Add(24 * time.Hour)
	second.Revisit = &warc.Revisit{
		Profile: warc.IdenticalPayload,
		URL:     first.URL,
		Time:    first.Time,
		Digest:  loc.Digest,
	}
	loc, err = a.Append(second)
	if err != nil {
		log.Fatal(err)
	}

	c, err := a.ReadAt(loc)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(c.Type, c.Time.Format(time.DateOnly), len(c.Body))
	// Output: revisit 2026-01-03 0
}

func ExampleArchive_Stats() {
	dir, remove := tempDir()
	defer remove()
	a, err := warc.Open(dir, warc.Options{MinFree: -1, Quota: 64 << 10})
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()
	for err == nil { // until the quota is used up
		_, err = a.Append(exchange("http://example.com/", "<p>Hello</p>"))
	}
	fmt.Println(err)
	s := a.Stats()
	fmt.Println(s.Files, s.Exchanges > 0, s.Refused)
	// Output:
	// warc: no space left: quota of 65536 bytes
	// 1 true 1
}

// A Reader can read an archive while another process writes it.
func ExampleReader_Follow() {
	dir, remove := archiveOf()
	defer remove()
	r, err := warc.OpenReader(dir)
	if err != nil {
		log.Fatal(err)
	}
	read := map[string]int64{} // nothing yet
	err = r.Follow(context.Background(), read, func(rec warc.Record) error {
		if rec.Type != "response" {
			return nil
		}
		block, err := io.ReadAll(rec.Block)
		if err != nil {
			return err
		}
		fmt.Println(rec.URL, rec.Get("WARC-IP-Address"))
		fmt.Println(strings.SplitN(string(block), "\r\n", 2)[0])
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// http://www.example.com/b 192.0.2.7
	// HTTP/1.1 200 OK
	// http://example.com/a?y=2&x=1 192.0.2.7
	// HTTP/1.1 200 OK
}

// The index is sorted by the SURT form of the URLs.
func ExampleReader_Index() {
	dir, remove := archiveOf()
	defer remove()
	r, err := warc.OpenReader(dir)
	if err != nil {
		log.Fatal(err)
	}
	var index bytes.Buffer
	if err := r.Index(context.Background(), &index); err != nil {
		log.Fatal(err)
	}
	for lines := bufio.NewScanner(&index); lines.Scan(); {
		key, rest, _ := strings.Cut(lines.Text(), " ")
		fmt.Println(key, strings.Split(rest, ", ")[1])
	}
	// Output:
	// com,example)/a?x=1&y=2 "mime": "text/html"
	// com,example)/b "mime": "text/html"
}

// Extract writes the whole archive as one WARC file.
func ExampleReader_Extract() {
	dir, remove := archiveOf()
	defer remove()
	r, err := warc.OpenReader(dir)
	if err != nil {
		log.Fatal(err)
	}
	var file bytes.Buffer
	if err := r.Extract(context.Background(), &file, nil, map[string]int64{}, nil); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%x\n", file.Bytes()[:2]) // the magic number of gzip
	// Output: 1f8b
}

func ExampleSURT() {
	fmt.Println(warc.SURT("https://www.Example.com:443/A//b/?z=1&Y=2#f"))
	fmt.Println(warc.SURT("http://127.0.0.1:8080/"))
	// Output:
	// com,example)/a/b?y=2&z=1
	// 1,0,0,127:8080)/
}
