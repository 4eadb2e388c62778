package credentials

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/podwright/podwright/internal/timing"
)

const (
	// runLimit is how long a plugin may take.
	runLimit = time.Minute
	// maxAnswer bounds a plugin's answer, maxStderr what is read from its stderr, in bytes.
	maxAnswer = 1 << 20
	maxStderr = 64 << 10
)

// command is a program and its inputs.
type command struct {
	file      string
	args, env []string
	stdin     []byte
}

// output is what a program printed. cut means that it printed more to stderr.
type output struct {
	stdout, stderr []byte
	cut            bool
}

// errTooLong is the error of a program whose answer exceeds maxAnswer.
var errTooLong = errors.New("its answer is longer than 1 MiB")

// bounded keeps the beginning of what is written to it. A strict one fails on a write that exceeds the bound.
type bounded struct {
	text   []byte
	most   int
	strict bool
	cut    bool
}

// Write implements [io.Writer].
func (b *bounded) Write(p []byte) (int, error) {
	kept := p[:min(len(p), b.most-len(b.text))]
	b.text = append(b.text, kept...)
	if len(kept) < len(p) {
		b.cut = true
		if b.strict {
			return len(kept), errTooLong
		}
	}
	return len(p), nil
}

// run runs a plugin once and parses its answer. The error quotes what it printed to stderr, without
// secrets.
func (s *Source) run(ctx context.Context, p *provider, repository, token string, annotations map[string]string) (answer, error) {
	stdin, err := request(p, repository, token, annotations)
	if err != nil {
		return answer{}, err
	}
	file := filepath.Join(s.options.BinDir, p.name)
	if err := checkPlugin(file); err != nil {
		return answer{}, err
	}
	ctx, cancel := timing.WithTimeout(ctx, s.options.Clock, runLimit)
	defer cancel()
	o, err := s.execute(ctx, command{file: file, args: p.args, env: append(s.environment(), p.env...), stdin: stdin})
	var a answer
	if err == nil {
		a, err = parseAnswer(p, o.stdout)
	} else if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("killed after %s without an answer", runLimit)
	}
	if err == nil {
		return a, nil
	}
	return answer{}, told(err, o, p, token)
}

// told adds to the error of a run what the plugin printed to stderr, without secrets.
func told(err error, o output, p *provider, token string) error {
	secrets, known := secretsOf(p, token, o.stdout)
	said := shown(o.stderr, o.cut, secrets)
	switch {
	case said == "":
		return err
	case !known:
		return fmt.Errorf("%w; its stderr is not shown: the answer may have credentials that cannot be told from other text", err)
	}
	return fmt.Errorf("%w; it said: %s", err, said)
}
