package store
const crashDir = "X"
func crashChild(string) {}
