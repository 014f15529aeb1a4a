package traffic

import "golang.org/x/sys/unix"

const fionread = unix.TIOCINQ // FIONREAD of sockets
