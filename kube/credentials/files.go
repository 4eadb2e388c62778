package credentials

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/podwright/podwright/internal/privatedir"
)

// maxConfig bounds a configuration file, in bytes.
const maxConfig = 1 << 20

// readConfig reads the providers in a file, or in all files of a folder in the order of their names
// (KG2). A name in two files is an error.
func readConfig(path string) ([]*provider, error) {
	files := []string{path}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		if files, err = configFiles(path); err != nil {
			return nil, err
		}
	}
	var out []*provider
	var problems []error
	for _, file := range files {
		text, err := readTrusted(file)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		found, err := parseConfig(text)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", file, err))
			continue
		}
		for _, p := range found {
			if slices.ContainsFunc(out, func(other *provider) bool { return other.name == p.name }) {
				problems = append(problems, fmt.Errorf("%s: the provider %q is named twice", file, p.name))
			}
			out = append(out, p)
		}
	}
	return out, errors.Join(problems...)
}

// configFiles returns the files of a folder that configure plugins.
func configFiles(dir string) (files []string, err error) {
	entries, err := os.ReadDir(dir) // in the order of their names
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) && !e.IsDir() {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no file whose name ends with .yaml, .yml or .json", dir)
	}
	return files, nil
}

// readTrusted reads a file that no other user can have written.
func readTrusted(file string) ([]byte, error) {
	if err := privatedir.CheckFile(file); err != nil {
		return nil, err
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err == nil && len(text) > maxConfig {
		err = fmt.Errorf("%s is longer than 1 MiB", file)
	}
	return text, err
}

// checkPlugin says why a plugin cannot be run: its file is missing, is not a program, or can be
// changed by other users.
func checkPlugin(file string) error {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s does not exist: install the plugin there, or remove its provider from the configuration", file)
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s is not a program: run chmod +x %s", file, file)
	}
	return privatedir.CheckFile(file)
}
