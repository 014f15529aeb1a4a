package main

import (
	"fmt"
	"time"
)

// ms formats milliseconds.
func ms(v float64) string { return fmt.Sprintf("%.1f ms", v) }

// size formats a number of bytes in a short unit.
func size(n int64) string {
	const units = "kMGTPE"
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n)/1000, 0
	for v >= 999.95 && i < len(units)-1 {
		v, i = v/1000, i+1
	}
	return fmt.Sprintf("%.1f %cB", v, units[i])
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// seconds formats an age.
func seconds(v float64) string {
	return time.Duration(v * float64(time.Second)).Round(100 * time.Millisecond).String()
}
