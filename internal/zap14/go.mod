module github.com/blevesearch/zapx/v14

go 1.26

require github.com/blevesearch/zapx/v11 v11.4.3
