// Command metrics writes docs/metrics.md, the table of every metric, from the source, or compares
// it with the existing page.
//
//	metrics -root DIR          write the page
//	metrics -root DIR -check   exit 1 if the page does not match the source
//
// It reads the calls that make instruments (package internal/instrument). Their names, descriptions
// and labels are literals, so nothing has to run. The meter of instrumenttest checks that values
// have exactly the labels declared there, and panics otherwise.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", ".", "the repository")
	check := flag.Bool("check", false, "compare instead of writing")
	flag.Parse()
	if err := run(*root, *check); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(root string, check bool) error {
	found, err := read(root)
	if err != nil {
		return err
	}
	file, text := filepath.Join(root, "docs", "metrics.md"), page(found)
	if !check {
		return os.WriteFile(file, []byte(text), 0o644) //nolint:gosec // a public page
	}
	there, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if string(there) != text {
		return errors.New("docs/metrics.md is not what the source says; run make metrics")
	}
	return nil
}
