// Command vulncheck looks for known vulnerabilities that the code of some modules can reach, as
// `make vuln` does:
//
//	vulncheck [-root DIR] [-db URL] [-offline fail|pass] MODULE...
//
// It runs govulncheck, whose version tools/go.mod pins. The database is the Go project's at
// https://vuln.go.dev, or the one that GOVULNDB names: a server, or a folder with the unpacked
// https://vuln.go.dev/vulndb.zip, as file:///the/folder. A database that is older than 90 days is
// an error. So is a server that does not answer, unless -offline says to pass: then the last line
// says that nothing was checked.
//
// Each finding is an error, unless allowed.txt next to this file explains it for a limited time. An
// explanation that has expired, or no longer explains anything, is an error.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

func main() {
	c := check{out: os.Stdout, now: time.Now()}
	flag.StringVar(&c.root, "root", ".", "the repository")
	flag.StringVar(&c.database, "db", cmp.Or(os.Getenv("GOVULNDB"), "https://vuln.go.dev"), "the database of vulnerabilities")
	flag.StringVar(&c.offline, "offline", "fail", "what to do if the database's server does not answer: fail, or pass")
	flag.Parse()
	c.allowed = filepath.Join(c.root, "tools", "vulncheck", "allowed.txt")
	c.modules = flag.Args()
	if err := c.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "vuln:", err)
		os.Exit(1)
	}
}

// check is one run.
type check struct {
	root, database, offline, allowed string
	modules                          []string
	out                              io.Writer
	now                              time.Time
}

func (c check) run(ctx context.Context) error {
	if c.offline != "fail" && c.offline != "pass" {
		return fmt.Errorf("-offline is %q; want fail or pass", c.offline)
	}
	if len(c.modules) == 0 {
		return errors.New("no modules to check; name their folders")
	}
	text, err := os.ReadFile(c.allowed)
	if err != nil {
		return err
	}
	allowed, err := parseAllowed(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", c.allowed, err)
	}
	if err := available(ctx, c.database); err != nil {
		if c.offline == "pass" && errors.Is(err, errNoAnswer) {
			fmt.Fprintf(c.out, "vuln: NOT CHECKED: %v. GOVULNDB can name a copy of it.\n", err)
			return nil
		}
		return err
	}
	var problems []error
	found := map[string]finding{}
	for _, module := range c.modules {
		r, err := scanModule(ctx, filepath.Join(c.root, module), c.database)
		if err != nil {
			return fmt.Errorf("module %s: %w", module, err)
		}
		problems = append(problems, tooOld(r.modified, c.now))
		for id, f := range r.reachable {
			f.module = module
			found[id] = f
		}
		fmt.Fprintf(c.out, "vuln: %s: %d reachable, %d more in what it requires; database of %s\n", module, len(r.reachable), r.others, r.modified.Format(time.DateOnly))
	}
	return errors.Join(append(problems[:1], judge(found, allowed, c.now)...)...)
}
