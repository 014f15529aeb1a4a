package canon_test

import (
	"errors"
	"fmt"

	"peerd/crawl/canon"
	"peerd/store"
)

func ExampleParse() {
	u, err := canon.Parse("HTTP://Example.org:80/a/../%7Ejoe?#top")
	fmt.Println(u, err)

	_, err = canon.Parse("mailto:joe@example.org")
	fmt.Println(errors.Is(err, canon.ErrScheme))
	// Output:
	// http://example.org/~joe <nil>
	// true
}

func ExampleJoin() {
	page := store.URL("http://example.org/docs/intro.html")
	for _, ref := range []string{"next.html", "../index.html", "//example.com", "?print=1", "#to" +
		"p"} {
		u, err := canon.Join(page, ref)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(u)
	}
	// Output:
	// http://example.org/docs/next.html
	// http://example.org/index.html
	// http://example.com/
	// http://example.org/docs/intro.html?print=1
	// http://example.org/docs/intro.html
}

func ExampleBase_Rebase() {
	// The page contains <base href="/static/">.
	base := canon.BaseOf("http://example.org/docs/intro.html").Rebase("/static/")
	u, err := base.Join("logo.png")
	fmt.Println(u, err)
	// Output: http://example.org/static/logo.png <nil>
}

func ExampleRules_Apply() {
	rules := canon.Rules{
		DropSessions: true,
		DropTracking: true,
		SortQuery:    true,
	}
	for _, u := range []store.URL{
		"http://example.org/shop;jsessionid=1A2B3C?page=2&item=7&utm_source=mail",
		"http://example.org/news/?gclid=1",
	} {
		fmt.Println(rules.Apply(u))
	}
	// Output:
	// http://example.org/shop?item=7&page=2
	// http://example.org/news/
}

func ExampleParseWHATWG() {
	parts, err := canon.ParseWHATWG("http://example.org/a/b", "../c?d#e")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(parts.Href)
	fmt.Println(parts.Hostname, parts.Pathname, parts.Search, parts.Hash)
	// Output:
	// http://example.org/c?d#e
	// example.org /c ?d #e
}
