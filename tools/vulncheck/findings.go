package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/vuln/scan"
)

// finding is a vulnerability that our code can reach.
type finding struct {
	module string
	// dependency is the module that has it, with its version; fixed is the version without it, ""
	// if there is none.
	dependency, fixed string
	// by is a function of ours that reaches it.
	by string
}

func (f finding) String() string {
	text := fmt.Sprintf("%s calls what is vulnerable in %s", f.by, f.dependency)
	if f.fixed != "" {
		return text + ", mended in " + f.fixed
	}
	return text + ", not mended yet"
}

// report is what govulncheck found in a module.
type report struct {
	modified  time.Time
	reachable map[string]finding
	// others counts vulnerabilities of required modules that no code reaches.
	others int
}

// scanModule runs govulncheck on every package of a module.
func scanModule(ctx context.Context, dir, database string) (report, error) {
	var out, problems bytes.Buffer
	c := scan.Command(ctx, "-C", dir, "-db", database, "-format", "json", "./...")
	c.Stdout, c.Stderr = &out, &problems
	if err := c.Start(); err != nil {
		return report{}, err
	}
	if err := c.Wait(); err != nil {
		return report{}, fmt.Errorf("%w\n%s", err, problems.String())
	}
	return read(&out)
}

// message is the part that we use of a message in govulncheck's stream.
type message struct {
	Config *struct {
		Modified time.Time `json:"db_last_modified"`
	}
	Finding *struct {
		OSV   string
		Fixed string `json:"fixed_version"`
		Trace []struct{ Module, Version, Package, Function string }
	}
}

// read extracts the findings from the stream. A trace leads from the vulnerable function to ours;
// one without a function says that a vulnerable version of a package or a module is used.
func read(stream io.Reader) (report, error) {
	r := report{reachable: map[string]finding{}}
	others := map[string]bool{}
	for d := json.NewDecoder(stream); ; {
		var m message
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return report{}, fmt.Errorf("read govulncheck's answer: %w", err)
		}
		if m.Config != nil {
			r.modified = m.Config.Modified
		}
		if m.Finding == nil || len(m.Finding.Trace) == 0 {
			continue
		}
		bad, ours := m.Finding.Trace[0], m.Finding.Trace[len(m.Finding.Trace)-1]
		if bad.Function == "" {
			others[m.Finding.OSV] = true
			continue
		}
		r.reachable[m.Finding.OSV] = finding{dependency: bad.Module + "@" + bad.Version, fixed: m.Finding.Fixed, by: ours.Package + "." + ours.Function}
	}
	if r.modified.IsZero() {
		return report{}, errors.New("govulncheck did not say of when its database is")
	}
	for id := range r.reachable {
		delete(others, id)
	}
	r.others = len(others)
	return r, nil
}
