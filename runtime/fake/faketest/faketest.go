package faketest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/runtime"
	"github.com/podwright/podwright/runtime/cri"
	"github.com/podwright/podwright/runtime/fake"
	"github.com/podwright/podwright/runtime/runtimetest"
)

// argv0 marks an argv that carries a program.
const argv0 = "program"

// Images of a fake made with Options.
const (
	image      = "example.com/program:v1"
	pullImage  = "example.com/pull:v1"
	repeatTick = 100 * time.Millisecond
)

// Options returns the options of a fake the suite can run on: it has the suite's
// image, runs its programs, writes log files and has a registry without the absent
// image. The caller may set Clock and the rest.
func Options() fake.Options {
	return fake.Options{
		Script:    script,
		Images:    []fake.Image{{Ref: image}},
		WriteLogs: true,
		Registry: func(ref string, _ *runtimeapi.AuthConfig) fake.Pull {
			if ref != pullImage {
				return fake.Pull{Err: fmt.Errorf("registry has no %s: %w", ref, runtime.ErrNotFound)}
			}
			return fake.Pull{Took: 100 * time.Millisecond}
		},
	}
}

// Subject returns the subject of the suite for services of a fake made with Options.
func Subject(services cri.RuntimeService, images cri.ImageService) runtimetest.Subject {
	return runtimetest.Subject{
		Runtime:   services,
		Images:    images,
		Image:     image,
		PullImage: pullImage,
		Command:   command,
	}
}

// command turns a program into an argv that script understands.
func command(p runtimetest.Program) []string {
	// A struct of strings and numbers always marshals.
	encoded, _ := json.Marshal(p)
	return []string{argv0, string(encoded)}
}

// script turns a container config whose command is from command into a script. With
// any other argv the container cannot be started.
func script(l fake.Launch) fake.Script {
	p, err := decode(append(append([]string(nil), l.Config.GetCommand()...), l.Config.GetArgs()...))
	if err != nil {
		return fake.Script{StartErr: err}
	}
	s := fake.Script{
		IgnoreTERM: p.IgnoreTERM,
		OnTERM:     fake.Exit{Code: int32(p.OnTERM)},
		Exec:       run,
	}
	for _, text := range stdout(p, l.Config) {
		s.Log = append(s.Log, fake.Line{Text: text})
	}
	for _, text := range p.Stderr {
		s.Log = append(s.Log, fake.Line{Text: text, Stderr: true})
	}
	if p.Repeat != "" {
		s.Log = append(s.Log, fake.Line{Text: p.Repeat, Every: repeatTick})
	}
	if p.Run >= 0 {
		s.Exit = &fake.Exit{After: p.Run, Code: int32(p.Exit)}
	}
	return s
}

// run is the script's answer to ExecSync.
func run(e fake.Exec) fake.ExecResult {
	p, err := decode(e.Cmd)
	if err != nil {
		return fake.ExecResult{Err: err}
	}
	result := fake.ExecResult{Code: p.Exit, Took: p.Run}
	if p.Run < 0 {
		result.Took = 1 << 62
	}
	out := strings.Join(stdout(p, e.Config), "\n")
	if out != "" && p.Unterminated == "" {
		out += "\n"
	}
	result.Stdout = out
	for _, text := range p.Stderr {
		result.Stderr += text + "\n"
	}
	return result
}

// decode reads an argv that command made.
func decode(argv []string) (runtimetest.Program, error) {
	var p runtimetest.Program
	if len(argv) != 2 || argv[0] != argv0 {
		return p, fmt.Errorf("argv %q is not a program: %w", argv, runtime.ErrInvalid)
	}
	if err := json.Unmarshal([]byte(argv[1]), &p); err != nil {
		return p, fmt.Errorf("program %q: %w: %w", argv[1], runtime.ErrInvalid, err)
	}
	return p, nil
}

// stdout returns what a program prints to stdout at its start, line by line. The
// unterminated line is the last one.
func stdout(p runtimetest.Program, config *runtimeapi.ContainerConfig) []string {
	out := append([]string(nil), p.Stdout...)
	env := map[string]string{}
	for _, kv := range config.GetEnvs() {
		env[kv.GetKey()] = string(kv.GetValue())
	}
	for _, name := range p.Env {
		out = append(out, env[name])
	}
	if p.WorkingDir {
		dir := config.GetWorkingDir()
		if dir == "" {
			dir = "/"
		}
		out = append(out, dir)
	}
	if p.Unterminated != "" {
		out = append(out, p.Unterminated)
	}
	return out
}
