package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/podwright/podwright/examples/internal/secretfile"
	"github.com/podwright/podwright/status/checkpoint"
)

// keyCredential is the name of the systemd credential with the keys, as in
// LoadCredentialEncrypted=podwright-record-key of a unit.
const keyCredential = "podwright-record-key"

// keyOptions say which keys seal the records.
type keyOptions struct {
	file       string
	trustPlain bool
	keys       []checkpoint.Key
}

func (o *keyOptions) register(flags *pflag.FlagSet, agent bool) {
	flags.StringVar(&o.file, "record-key-file", "", "file of mode 600 with the keys that seal the records, one per line, newest first: 32 random bytes each in base64 (openssl rand -base64 32) (default: the systemd credential "+
		keyCredential+" if there is one; otherwise records are not sealed)")
	if agent {
		flags.BoolVar(&o.trustPlain, "record-key-trust-plain", false, "accept records that are not sealed, and seal them: for the first start with a key")
	}
}

// complete reads the keys.
func (o *keyOptions) complete() (err error) {
	if o.keys, err = secretfile.Keys(o.file, keyCredential, checkpoint.NewKey); err != nil {
		return fmt.Errorf("--record-key-file: %w", err)
	}
	if o.trustPlain && len(o.keys) == 0 {
		return errors.New("--record-key-trust-plain is for a start with --record-key-file")
	}
	return nil
}
