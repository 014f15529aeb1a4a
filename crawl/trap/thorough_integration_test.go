//go:build integration

package trap

// thorough makes tests use more URLs and seeds.
const thorough = true
