// Go's own reverse proxy with keep-alive to the upstream: reverse_proxy PORT UPSTREAM_PORT
package main

import (
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"time"
)

func main() {
	scheme := os.Getenv("UPSTREAM_SCHEME")
	if scheme == "" {
		scheme = "http"
	}
	target, err := url.Parse(scheme + "://127.0.0.1:" + os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	proxy.Transport = &http.Transport{
		MaxIdleConns:        128,
		MaxIdleConnsPerHost: 128,
		IdleConnTimeout:     10 * time.Minute,
		DisableCompression:  true,
	}
	server := &http.Server{Addr: "127.0.0.1:" + os.Args[1], Handler: proxy, IdleTimeout: 10 * time.Minute}
	log.Fatal(server.ListenAndServe())
}
