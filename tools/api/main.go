// Command api writes the exported API of every public package to api/PACKAGE.txt, one line per
// name, field and method, or compares it with the existing files.
//
//	api -root DIR          write the files
//	api -root DIR -check   exit 1 and say what differs
//
// Every change of the API thereby shows up in a diff.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/importer"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	root := flag.String("root", ".", "the repository")
	check := flag.Bool("check", false, "compare instead of writing")
	flag.Parse()
	files, err := describeAll(*root)
	if err == nil {
		dir := filepath.Join(*root, "api")
		if *check {
			err = compare(dir, files)
		} else {
			err = write(dir, files)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// listed is what the go command reports about a package.
type listed struct {
	ImportPath string
	Name       string
	Export     string
	Standard   bool
	Module     *struct {
		Path string
		Main bool
	}
}

// public reports whether users can import the package.
func (p listed) public() bool {
	return p.Module != nil && p.Module.Main && p.Name != "main" && p.Export != "" && !strings.Contains("/"+p.ImportPath+"/", "/internal/")
}

// modules are the folders of the modules whose API users build on.
var modules = []string{".", "kube"}

// describeAll returns the text for each file below api/, by its slash path.
func describeAll(root string) (map[string]string, error) {
	all := map[string]string{}
	for _, module := range modules {
		dir := filepath.Join(root, module)
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		files, err := describe(dir)
		if err != nil {
			return nil, err
		}
		for name, text := range files {
			if module != "." && name != module+".txt" { // the module's root package is named after its folder
				name = module + "/" + name
			}
			all[name] = text
		}
	}
	return all, nil
}

// describe returns the text for each public package of a module, by its file.
func describe(root string) (map[string]string, error) {
	packages, err := list(root)
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	for _, p := range packages {
		exports[p.ImportPath] = p.Export
	}
	imported := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(exports[path])
	})
	files := map[string]string{}
	for _, p := range packages {
		if !p.public() {
			continue
		}
		pkg, err := imported.Import(p.ImportPath)
		if err != nil {
			return nil, fmt.Errorf("api: %s: %w", p.ImportPath, err)
		}
		files[fileName(p)] = text(pkg, p.Module.Path)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("api: no public package below %s", root)
	}
	return files, nil
}

// fileName names the file of a package: its path within the module, or the package's name for the
// module's root.
func fileName(p listed) string {
	inner := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, p.Module.Path), "/")
	if inner == "" {
		inner = p.Name
	}
	return inner + ".txt"
}

func list(root string) ([]listed, error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Name,Export,Standard,Module", "./...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS=linux")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("api: go list: %w\n%s", err, stderr.Bytes())
	}
	var packages []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("api: output of go list: %w", err)
		}
		packages = append(packages, p)
	}
}

// write makes dir contain exactly the files.
func write(dir string, files map[string]string) error {
	old, err := read(dir)
	if err != nil {
		return err
	}
	for name := range old {
		if _, ok := files[name]; !ok {
			if err := os.Remove(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
				return err
			}
		}
	}
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// read returns the files of dir by slash path; a missing dir has none.
func read(dir string) (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".txt") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = string(text)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return files, err
}

// compare returns an error that names every line in which dir and files differ.
func compare(dir string, files map[string]string) error {
	old, err := read(dir)
	if err != nil {
		return err
	}
	var b strings.Builder
	names := map[string]bool{}
	for name := range old {
		names[name] = true
	}
	for name := range files {
		names[name] = true
	}
	for _, name := range sorted(names) {
		for _, line := range difference(old[name], files[name]) {
			fmt.Fprintf(&b, "  api/%s: %s\n", name, line)
		}
	}
	if b.Len() == 0 {
		return nil
	}
	return fmt.Errorf("api: the exported API differs from the files below api/:\n%sIf the change is meant, run `make api` and commit the files with it; "+
		"if not, unexport the name or restore the signature", b.String())
}

// difference returns the lines that were removed, marked "-", and added, marked "+".
func difference(before, after string) []string {
	was, is := strings.Split(before, "\n"), strings.Split(after, "\n")
	var out []string
	for _, line := range was {
		if line != "" && !slices.Contains(is, line) {
			out = append(out, "-"+line)
		}
	}
	for _, line := range is {
		if line != "" && !slices.Contains(was, line) {
			out = append(out, "+"+line)
		}
	}
	return out
}

func sorted(set map[string]bool) []string {
	names := make([]string, 0, len(set))
	for name := range set {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
