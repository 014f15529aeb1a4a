package crawllet

import "net/http"

// Reason is why an exchange failed. It is an error, to be tested with errors.Is.
type Reason string

// Reasons of the host for refusing a request.
const (
	BadRequest   Reason = "bad-request"   // the message is not valid
	NotAllowed   Reason = "not-allowed"   // the key is not accepted, or the signature is wrong
	Expired      Reason = "expired"       // the offer is too old, or was made in the future
	Replayed     Reason = "replayed"      // the nonce has been used
	NoTicket     Reason = "no-ticket"     // unknown, used or expired
	NoModule     Reason = "no-module"     // it has to be uploaded first
	ModuleSize   Reason = "module-size"   // the module is too large
	ModuleDigest Reason = "module-digest" // the module is not the one of the offer
	BadModule    Reason = "bad-module"    // not WebAssembly, or took too long to compile
	BadImport    Reason = "bad-import"    // the module needs more than the host has
	Busy         Reason = "busy"          // too many crawllets run, or have run this hour
)

// Reasons for the end of a run.
const (
	CPULimit    Reason = "cpu-limit"
	MemoryLimit Reason = "memory-limit"
	PageLimit   Reason = "page-limit"
	OutputLimit Reason = "output-limit"
	Deadline    Reason = "deadline"
	Crashed     Reason = "crashed" // the module trapped, or exited with another status than 0
	Killed      Reason = "killed"  // the process ended for a reason outside the crawllet
	Internal    Reason = "internal"
)

// Reasons of the client.
const (
	Unsupported Reason = "unsupported" // the site has no crawllets
	CutOff      Reason = "cut-off"     // the reply ended without its last frame
	BadReply    Reason = "bad-reply"   // the reply is not valid
)

// Error implements error.
func (r Reason) Error() string { return "crawllet: " + string(r) }

// maxDetail is how many bytes of a Detail from elsewhere are kept.
const maxDetail = 1000

// Failure is a Reason with a detail for people.
type Failure struct {
	Reason Reason `json:"reason"`
	Detail string `json:"detail,omitempty"`
}

// Error implements error.
func (f *Failure) Error() string {
	if f.Detail == "" {
		return f.Reason.Error()
	}
	return f.Reason.Error() + ": " + f.Detail
}

// Unwrap returns the Reason.
func (f *Failure) Unwrap() error { return f.Reason }

// fail returns a Failure.
func fail(r Reason, detail string) *Failure { return &Failure{r, detail} }

// statuses are the HTTP statuses of the reasons for which a host refuses a request.
var statuses = map[Reason]int{
	BadRequest: http.StatusBadRequest, NotAllowed: http.StatusForbidden,
	Expired: http.StatusForbidden, Replayed: http.StatusForbidden,
	NoTicket: http.StatusNotFound, NoModule: http.StatusConflict,
	ModuleSize: http.StatusRequestEntityTooLarge, ModuleDigest: http.StatusUnprocessableEntity,
	BadModule: http.StatusUnprocessableEntity, BadImport: http.StatusUnprocessableEntity,
	Busy: http.StatusServiceUnavailable,
}

// status returns the HTTP status of a reason.
func (r Reason) status() int {
	if s, ok := statuses[r]; ok {
		return s
	}
	return http.StatusInternalServerError
}
