package admin

import "testing"

// AwaitToken returns the token in api.json as soon as the file is there.
func AwaitToken(t *testing.T, file string) string {
	t.Helper()
	var api apiFile
	await(t, func() bool {
		var err error
		api, err = readAPIFile(file)
		return err == nil
	})
	return api.Token
}
