package wire_test

import (
	"bytes"
	"fmt"
	"log"

	"peerd/overlay/wire"
)

func ExampleReadMsg() {
	type greeting struct {
		Text string `cbor:"1,keyasint"`
	}
	var stream bytes.Buffer
	if err := wire.WriteMsg(&stream, greeting{"hello"}); err != nil {
		log.Fatal(err)
	}
	var got greeting
	if err := wire.ReadMsg(&stream, 1<<10, &got); err != nil { // accepts 1 KiB at most
		log.Fatal(err)
	}
	fmt.Println(got.Text)
	// Output: hello
}
