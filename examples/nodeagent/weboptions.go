package main

import (
	"fmt"
	"net"
	"strings"

	"github.com/spf13/pflag"
)

// webOptions are the part of the command line about the page for browsers.
type webOptions struct {
	text    string
	address string // HOST:PORT, "" for no page
}

func (o *webOptions) register(flags *pflag.FlagSet) {
	flags.StringVar(&o.text, "web", "", "serve a page for browsers at `HOST:PORT` (HOST is 127.0.0.1 if left out, port 0 takes a free one), which shows but changes nothing; nodeagent web prints the link, with a token; not encrypted (default: no page)")
}

// complete checks the options.
func (o *webOptions) complete() error {
	if o.text == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(o.text)
	if err != nil || port == "" || strings.HasPrefix(o.text, "unix:") {
		return fmt.Errorf("--web %q: want HOST:PORT, as in 127.0.0.1:8080", o.text)
	}
	if err := checkPort(port); err != nil {
		return fmt.Errorf("--web %q: %w", o.text, err)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	o.address = net.JoinHostPort(host, port)
	return nil
}

// host returns the HOST of the address, in lower case.
func (o *webOptions) host() string {
	host, _, err := net.SplitHostPort(o.address)
	if err != nil {
		return ""
	}
	return strings.ToLower(host)
}

// exposed reports whether other machines can reach the page.
func (o *webOptions) exposed() bool { return reachable(o.host()) }
