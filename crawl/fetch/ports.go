package fetch

import (
	"errors"
	"fmt"
)

// ErrForbiddenPort means that a port belongs to a protocol to which HTTP must not be sent. Nothing
// was sent.
var ErrForbiddenPort = errors.New("port is not one for HTTP")

// badPorts are the ports that browsers block (Fetch Standard, "port blocking"): a link, or a peer
// that names a URL, must not cause connections to mail servers or scans of a machine.
var badPorts = func() map[uint16]bool {
	bad := map[uint16]bool{}
	for _, p := range []uint16{
		1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101,
		102, 103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389,
		427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636,
		989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665,
		6666, 6667, 6668, 6669, 6679, 6697, 10080,
	} {
		bad[p] = true
	}
	return bad
}()

// checkPort returns nil if a port may be dialled, and otherwise an error that matches
// ErrForbiddenPort.
func checkPort(port uint16) error {
	if badPorts[port] {
		return fmt.Errorf("%w: %d", ErrForbiddenPort, port)
	}
	return nil
}
