package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// apiOptions are the part of the command line about the local API.
type apiOptions struct {
	texts     []string
	hosts     string
	tokenFile string

	addresses []address
	madeToken bool // the token's file is the default one, which the agent makes
}

func (o *apiOptions) register(flags *pflag.FlagSet) {
	flags.Func("listen", "`ADDRESS` of the local API: unix:PATH, a socket for root and the agent's user, or HOST:PORT, with a token and not encrypted; may be given several times (default unix:ROOT/nodeagent.sock)",
		func(text string) error { o.texts = append(o.texts, text); return nil })
	flags.StringVar(&o.hosts, "listen-host", "", "names, separated by commas, by which clients may call a HOST:PORT of --listen, or --web, besides its address and localhost")
	flags.StringVar(&o.tokenFile, "listen-token-file", "", "file, mode 600, with the token that clients of a HOST:PORT of --listen have to send, and that of --web is made of, read at the start (default ROOT/nodeagent.token, made if missing)")
}

// complete checks the options; root is the agent's folder, "" if it is not known. A page for
// browsers uses the names and the token too.
func (o *apiOptions) complete(root string, page bool) error {
	var problems []error
	for _, text := range o.texts {
		a, err := parseAddress(text)
		if err == nil && slices.Contains(o.addresses, a) {
			err = fmt.Errorf("--listen %s is given twice", text)
		}
		problems = append(problems, err)
		o.addresses = append(o.addresses, a)
	}
	if len(o.texts) == 0 && root != "" {
		a, err := defaultAddress(root)
		if err != nil {
			err = fmt.Errorf("%w, or a shorter --root", err)
		}
		problems = append(problems, err)
		o.addresses = []address{a}
	}
	if !o.overTCP() && !page && (o.tokenFile != "" || o.hosts != "") {
		problems = append(problems, errors.New("--listen-host and --listen-token-file mean nothing without --listen HOST:PORT or --web"))
	}
	if o.tokenFile == "" {
		o.tokenFile, o.madeToken = defaultTokenFile(root), true
	} else if abs, err := filepath.Abs(o.tokenFile); err != nil {
		problems = append(problems, fmt.Errorf("--listen-token-file: %w", err))
	} else {
		o.tokenFile = abs
	}
	return errors.Join(problems...)
}

// overTCP reports whether the API is served over the network.
func (o *apiOptions) overTCP() bool {
	return slices.ContainsFunc(o.addresses, func(a address) bool { return a.tcp != "" })
}

// names returns the names by which clients may call the agent: those given, and those in the
// addresses to listen on.
func (o *apiOptions) names() []string {
	names := strings.FieldsFunc(strings.ToLower(o.hosts), func(r rune) bool { return r == ',' || r == ' ' })
	for _, a := range o.addresses {
		if host, _, err := net.SplitHostPort(a.tcp); err == nil && host != "" {
			names = append(names, strings.ToLower(host))
		}
	}
	return names
}

// exposed returns the addresses that other machines can reach.
func (o *apiOptions) exposed() (all []string) {
	for _, a := range o.addresses {
		if host, _, err := net.SplitHostPort(a.tcp); err == nil && reachable(host) {
			all = append(all, a.tcp)
		}
	}
	return all
}

// reachable reports whether other machines can reach an address with this host.
func reachable(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host != "localhost" && (err != nil || !ip.IsLoopback())
}
