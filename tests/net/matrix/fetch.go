// A static program with its own resolver that asks nobody for a proxy: `fetch URL`, or `fetch lookup NAME`.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

func main() {
	if os.Args[1] == "lookup" {
		resolver := net.Resolver{PreferGo: true}
		addresses, err := resolver.LookupHost(context.Background(), os.Args[2])
		end(err)
		fmt.Println(addresses)
		return
	}
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{Proxy: nil}}
	answer, err := client.Get(os.Args[1])
	end(err)
	text, err := io.ReadAll(answer.Body)
	end(err)
	fmt.Println(answer.Status, string(text))
}

func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
