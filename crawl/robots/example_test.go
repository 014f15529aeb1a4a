package robots_test

import (
	"context"
	"fmt"

	"peerd/crawl/robots"
	"peerd/store"
)

// memoryFetcher serves files from memory.
type memoryFetcher map[store.URL]string

func (f memoryFetcher) Fetch(
	_ context.Context, u store.URL, _ int64,
) (robots.Response, error) {
	file, ok := f[u]
	if !ok {
		return robots.Response{Status: 404}, nil
	}
	return robots.Response{Status: 200, Body: []byte(file)}, nil
}

func (f memoryFetcher) Valid(string) (robots.Result, bool) { return robots.Result{}, false }

func ExampleGet() {
	site := memoryFetcher{
		"https://example.org/robots.txt": "User-agent: *\nDisallow: /private/\n",
	}
	result, _ := robots.Get(context.Background(), site, "https://example.org")
	rules := result.Compile()
	fmt.Println(result.Status, result.Expires.Sub(result.Fetched))
	fmt.Println(rules.Allowed("peerd", "https://example.org/"))
	fmt.Println(rules.Allowed("peerd", "https://example.org/private/x"))
	// Output:
	// 200 1h0m0s
	// true
	// false
}

func ExampleRules_Match() {
	file := `User-agent: *
Disallow: /

User-agent: peerd
Disallow: /search
Allow: /search/help
`
	rules := robots.Result{Status: 200, Body: []byte(file)}.Compile()
	for _, u := range []store.URL{
		"https://example.org/about",
		"https://example.org/search?q=go",
		"https://example.org/search/help",
	} {
		allowed, line := rules.Match("peerd/1.0 (+https://peerd.example)", u)
		fmt.Println(allowed, line)
	}
	// Output:
	// true 0
	// false 5
	// true 6
}

func ExampleRules_CrawlDelay() {
	file := "User-agent: peerd\nCrawl-delay: 2.5\n"
	rules := robots.Result{Status: 200, Body: []byte(file)}.Compile()
	fmt.Println(rules.CrawlDelay("peerd"))
	fmt.Println(rules.CrawlDelay("other"))
	// Output:
	// 2.5s true
	// 0s false
}

func ExampleRules_Sitemaps() {
	file := "Sitemap: https://example.org/sitemap.xml\nUser-agent: *\nDisallow:\n"
	rules := robots.Result{Status: 200, Body: []byte(file)}.Compile()
	fmt.Println(rules.Sitemaps())
	// Output: [https://example.org/sitemap.xml]
}

func ExampleResult_WithFallback() {
	known := robots.Result{Status: 200, Body: []byte("User-agent: *\nDisallow: /private/\n")}
	down := robots.Result{Status: 503, Unreachable: true}

	// The rules that were known before stay in force while the file is unreachable.
	rules := down.WithFallback(known).Compile()
	fmt.Println(rules.Allowed("peerd", "https://example.org/"))
	fmt.Println(rules.Allowed("peerd", "https://example.org/private/"))

	// Without them, nothing may be fetched.
	rules = down.WithFallback(robots.Result{}).Compile()
	fmt.Println(rules.Allowed("peerd", "https://example.org/"))
	// Output:
	// true
	// false
	// false
}
