// Command badplugin is a plug-in that does what the URL of the page says.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"

	"peerd/crawl/crawllet/page"
)

var keep [][]byte

func main() {
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		var p page.Page
		if err != nil || json.Unmarshal(line, &p) != nil {
			return
		}
		if p.URL == "deaf" { // it answers, and does not read the body
			fmt.Println("{}")
			for {
			}
		}
		_, _ = io.CopyN(io.Discard, in, int64(p.Size))
		_ = json.NewEncoder(os.Stdout).Encode(read(p))
	}
}

func read(p page.Page) page.Result {
	switch path.Base(p.URL) {
	case "crash":
		panic("on purpose")
	case "exit":
		os.Exit(0)
	case "loop":
		for {
		}
	case "closed":
		os.Stdout.Close()
		for {
		}
	case "flood":
		for {
			_, _ = os.Stdout.Write(bytes.Repeat([]byte("x"), 1<<16))
		}
	case "memory":
		for {
			keep = append(keep, bytes.Repeat([]byte{1}, 1<<20))
		}
	case "nonsense":
		fmt.Println("nonsense")
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "file":
		if _, err := os.ReadFile(p.Type); err != nil {
			os.Exit(3)
		}
	}
	return page.Result{Links: []string{"/"}}
}
