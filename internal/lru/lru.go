// Package lru makes caches that forget what was not used for longest. It imports nothing of this
// module.
package lru

import (
	"github.com/hashicorp/golang-lru/v2"
	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Cache is safe for concurrent use.
type Cache[K comparable, V any] = lru.Cache[K, V]

// Simple is a cache for one goroutine at a time.
type Simple[K comparable, V any] = simplelru.LRU[K, V]

// New returns a Cache of at most size entries. It panics if the size is not positive.
func New[K comparable, V any](size int) *Cache[K, V] { return must(lru.New[K, V](size)) }

// NewSimple is New for a Simple. evicted, which may be nil, is called with what is removed.
func NewSimple[K comparable, V any](size int, evicted func(K, V)) *Simple[K, V] {
	return must(simplelru.NewLRU(size, evicted))
}

func must[T any](cache T, err error) T {
	if err != nil {
		panic(err)
	}
	return cache
}
