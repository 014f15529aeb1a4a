//go:build integration

package warc

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Records and index of an exchange are those that GNU wget writes.
func TestWget(t *testing.T) {
	t.Parallel()
	wget, err := exec.LookPath("wget")
	if err != nil {
		t.Skip("wget is not installed")
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write(text(1, 5000))
	}))
	defer srv.Close()
	dir := t.TempDir()
	cmd := exec.Command(wget, "-q", "--no-warc-keep-log", "--warc-file=w", "--warc-cdx", "-O",
		"out", srv.URL+"/x?A=b")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	theirs := map[string]plain{}
	for _, p := range readPlain(t, readFile(t, dir, "w.warc.gz")) {
		if k := p.get("warc-type"); theirs[k].header == nil {
			theirs[k] = p
		}
	}
	head, body, _ := bytes.Cut(theirs["response"].block, []byte("\r\n\r\n"))
	x := page(1, 0)
	x.URL, x.Request, x.Response, x.Body = srv.URL+"/x?A=b", theirs["request"].block,
		append(head[:len(head):len(head)], "\r\n\r\n"...), body
	a := open(t, t.TempDir(), Options{})
	loc := appendOne(t, a, x)
	closeNow(t, a)
	ours := checkStrict(t, readFile(t, a.dir, loc.File))
	for _, p := range ours[:3] {
		w := theirs[p.get("warc-type")]
		for k, v := range w.header {
			switch k {
			case "warc-date", "warc-record-id", "warc-warcinfo-id", "warc-filename",
				"warc-ip-address", "warc-target-uri", "warc-concurrent-to":
				// In wget's files, warc-concurrent-to of the response names the request.
				if len(p.header[k]) != len(v) && k != "warc-concurrent-to" {
					t.Errorf("%s record has %d fields %s, wget's has %d", p.get("warc-type"),
						len(p.header[k]), k, len(v))
				}
			case "content-length", "warc-block-digest":
				if p.get("warc-type") != "warcinfo" && p.get(k) != v[0] {
					t.Errorf("%s is %s, wget's is %s", k, p.get(k), v[0])
				}
			default:
				if p.get(k) != v[0] {
					t.Errorf("%s is %s, wget's is %s", k, p.get(k), v[0])
				}
			}
		}
	}
	// a b a m s k r M V g u
	cdx := strings.Fields(strings.SplitAfter(string(readFile(t, dir, "w.cdx")), "\n")[1])
	if l := readIndex(t, readFile(t, a.dir, indexName(loc.File)))[0]; l.URL != cdx[2] ||
		l.Mime != cdx[3] || l.Status != cdx[4] || l.Digest != cdx[5] {
		t.Errorf("index line is %+v, wget's is %v", l, cdx)
	}
	if err := os.WriteFile(filepath.Join(a.dir, "w.warc.gz"), readFile(t, dir, "w.warc.gz"),
		0o644); err != nil {
		t.Fatal(err)
	}
	b := open(t, a.dir, Options{}) // indexes wget's file, too
	if l := readIndex(t, readFile(t, a.dir, "w.cdxj"))[0]; l.URL != cdx[2] || l.Offset != cdx[8] {
		t.Errorf("index line of wget's file is %+v, wget's is %v", l, cdx)
	}
	checkIndexesOf(t, b)
}

func checkIndexesOf(t *testing.T, a *Archive) {
	var b bytes.Buffer
	if err := a.Index(t.Context(), &b); err != nil || len(readIndex(t, b.Bytes())) != 2 {
		t.Errorf("Index() = %v, want two lines:\n%s", err, b.Bytes())
	}
}
