package config

// Version is the version of this program, as the User-Agent, beacons and
// `peerd version` name it.
const Version = "0.1.0"

// UserAgent returns what is sent to web servers as User-Agent (RFC 9110,
// section 10.1.5): product, version and, when it is set, the contact URL.
func UserAgent(contact string) string {
	if contact == "" {
		return "peerd/" + Version
	}
	return "peerd/" + Version + " (+" + contact + ")"
}
