// Command evil is a crawllet that tries what its argument names, and prints how that went.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"time"
)

var keep [][]byte

func main() {
	what := os.Args[1]
	arg := ""
	if len(os.Args) > 2 {
		arg = os.Args[2]
	}
	switch what {
	case "memory":
		for {
			keep = append(keep, bytes.Repeat([]byte{1}, 1<<20))
		}
	case "cpu":
		fmt.Println("started")
		for i := 0; ; i++ {
		}
	case "sleep":
		fmt.Println("started")
		for {
			time.Sleep(time.Hour)
		}
	case "flood":
		line := bytes.Repeat([]byte("0123456789abcdef"), 4096)
		for {
			if _, err := os.Stdout.Write(line); err != nil {
				os.Exit(3)
			}
		}
	case "errors":
		for range 100_000 {
			fmt.Fprintln(os.Stderr, "this is not read by anyone, this is not read by anyone")
		}
		fmt.Println("done")
	case "exit":
		fmt.Println("partial")
		fmt.Fprintln(os.Stderr, "the reason")
		os.Exit(5)
	case "panic":
		fmt.Println("partial")
		panic("evil")
	case "clock":
		a := time.Now()
		for i := range 3_000_000 {
			_ = i
		}
		b := time.Now()
		fmt.Println(a.Unix()%60, b.Sub(a) < time.Millisecond)
		time.Sleep(24 * time.Hour)
		fmt.Println(time.Since(b) >= 24*time.Hour)
	case "environment":
		fmt.Println(len(os.Environ()), os.Args)
	default:
		report(try(what, arg))
	}
}

func report(text string, err error) {
	if err != nil {
		fmt.Println("refused:", err)
		return
	}
	fmt.Println("got:", text)
}

func try(what, arg string) (string, error) {
	switch what {
	case "read":
		b, err := os.ReadFile(arg)
		return string(b), err
	case "stat":
		i, err := os.Stat(arg)
		return fmt.Sprint(err == nil && i.IsDir()), err
	case "list":
		e, err := os.ReadDir(arg)
		return fmt.Sprint(len(e)), err
	case "create":
		return "", os.WriteFile(arg, []byte("x"), 0o666)
	case "append":
		f, err := os.OpenFile(arg, os.O_WRONLY|os.O_APPEND, 0)
		if err == nil {
			_, err = f.WriteString("x")
		}
		return "", err
	case "truncate":
		return "", os.Truncate(arg, 0)
	case "remove":
		return "", os.Remove(arg)
	case "mkdir":
		return "", os.Mkdir(arg, 0o777)
	case "symlink":
		return "", os.Symlink("/etc/passwd", arg)
	case "rename":
		return "", os.Rename(arg, arg+"2")
	case "dial":
		c, err := net.DialTimeout("tcp", arg, time.Second)
		if err == nil {
			_, err = io.WriteString(c, "GET / HTTP/1.0\r\n\r\n")
		}
		return "", err
	case "exec":
		return "", exec.Command(arg).Run()
	case "many":
		n := 0
		for range 50 {
			if _, err := os.ReadFile(arg); err != nil {
				return fmt.Sprint(n), nil
			}
			n++
		}
		return fmt.Sprint(n), nil
	}
	return "", fmt.Errorf("%s is unknown", what)
}
