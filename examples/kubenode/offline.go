package main

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/examples/internal/secretfile"
	"github.com/podwright/podwright/kube"
	"github.com/podwright/podwright/kube/offline"
)

// offlineCredential is the name of the systemd credential with the keys of the cache.
const offlineCredential = "podwright-offline-key"

// offlineFlags say what is kept for a start without an API server.
type offlineFlags struct {
	cache         bool
	dir, key, max string
}

func (f *offlineFlags) register(flags *flag.FlagSet) {
	flags.BoolVar(&f.cache, "offline-cache", false, "keep on disk what pods need of the API server (config maps, secrets, tokens and more), so that they start without it after a boot")
	flags.StringVar(&f.dir, "offline-cache-dir", "", "`folder` for that, which no other user can change; empty: offline in --root")
	flags.StringVar(&f.key, "offline-cache-key-file", "", "`file` of mode 600 with the keys that seal it, one per line, newest first: 32 random bytes each in base64 (openssl rand -base64 32); empty: the systemd credential "+
		offlineCredential+" if there is one, otherwise it is not sealed")
	flags.StringVar(&f.max, "offline-cache-max-size", "256Mi", "`size` that it may have")
}

// options returns the agent's options.
func (f *offlineFlags) options() (o kube.Offline, err error) {
	if !f.cache {
		if f.dir != "" || f.key != "" {
			return o, errors.New("--offline-cache-dir and --offline-cache-key-file are for --offline-cache")
		}
		return o, nil
	}
	o = kube.Offline{Cache: true, Dir: f.dir}
	if o.Dir != "" {
		if o.Dir, err = filepath.Abs(o.Dir); err != nil {
			return o, err
		}
	}
	size, err := resource.ParseQuantity(f.max)
	if err != nil || size.Sign() <= 0 {
		return o, fmt.Errorf("--offline-cache-max-size %q: want a number of bytes such as 256Mi", f.max)
	}
	o.MaxBytes = size.Value()
	if o.Keys, err = secretfile.Keys(f.key, offlineCredential, offline.NewKey); err != nil {
		return o, fmt.Errorf("--offline-cache-key-file: %w", err)
	}
	return o, nil
}
