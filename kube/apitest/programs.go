package apitest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// programsVariable is the environment variable that names a folder with the programs.
const programsVariable = "PODWRIGHT_KUBERNETES"

// findPrograms returns the folder of the programs etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler and kubectl. It builds them if they are not
// there yet, which takes minutes. It must be called below the repository, unless the
// environment names the folder.
func findPrograms(ctx context.Context) (string, error) {
	if folder := os.Getenv(programsVariable); folder != "" {
		return folder, nil
	}
	script, err := findUp(filepath.Join("kube", "apitest", "servers", "build.sh"))
	if err != nil {
		return "", fmt.Errorf("%w; %s can name a folder that has the servers", err, programsVariable)
	}
	command := exec.CommandContext(ctx, "bash", script)
	var problem strings.Builder
	command.Stderr = &problem
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("build the servers with %s: %w: %s", script, err, problem.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// findUp returns the path of a file below the working directory or a folder above it.
func findUp(name string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		file := filepath.Join(dir, name)
		if _, err := os.Stat(file); err == nil {
			return file, nil
		} else if !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("no %s in a folder above this one", name)
		}
		dir = up
	}
}
