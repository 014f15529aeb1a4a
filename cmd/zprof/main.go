package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"runtime/pprof"
	"syscall"
	"time"

	"peerd/node"
)

func main() {
	f, _ := os.Create(os.Args[1])
	pprof.StartCPUProfile(f)
	t := time.Now()
	s, err := node.Crawl(context.Background(), node.CrawlOptions{
		Seeds: os.Args[2:], Scope: "host", AllowNet: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Workers: 32, UserAgent: "peerd-prof",
	})
	pprof.StopCPUProfile()
	var ru syscall.Rusage
	syscall.Getrusage(0, &ru)
	cpu := time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
	fmt.Println(s.Pages, "pages", time.Since(t).Round(time.Millisecond), "cpu", cpu.Round(time.Millisecond), "pages/cpu-s", float64(s.Pages)/cpu.Seconds(), "maxrss MB", ru.Maxrss/1024, s.ByOutcome, err)
}
