package crawllet_test

import (
	"log"
	"net/http"

	"peerd/crawl/crawllet"
)

// A web server with crawllets.
func Example() {
	main := func() {
		crawllet.Main() // the process of a crawllet is this program, too
		h, err := crawllet.New(crawllet.Config{
			Root: "/var/www/html", Prefix: "https://www.example.org/",
		})
		if err != nil {
			log.Fatal(err)
		}
		http.Handle(crawllet.Path, h)
		http.Handle(crawllet.Path+"/", h)
		http.Handle("/", http.FileServer(http.Dir("/var/www/html")))
		log.Fatal(http.ListenAndServe("127.0.0.1:8080", nil))
	}
	_ = main
}
