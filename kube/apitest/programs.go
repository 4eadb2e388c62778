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

// Environment variables that name a folder with the programs, and one with metrics-server.
const (
	programsVariable      = "PODWRIGHT_KUBERNETES"
	metricsServerVariable = "PODWRIGHT_METRICS_SERVER"
)

// findPrograms returns the folder of the programs etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler and kubectl.
func findPrograms(ctx context.Context) (string, error) {
	return find(ctx, programsVariable, "servers")
}

// find returns the folder of programs: the one that the environment names, otherwise the one that
// the script in a folder next to this file builds, once, which takes minutes. In that case it must
// be called below the repository.
func find(ctx context.Context, variable, built string) (string, error) {
	if folder := os.Getenv(variable); folder != "" {
		return folder, nil
	}
	script, err := findUp(filepath.Join("kube", "apitest", built, "build.sh"))
	if err != nil {
		return "", fmt.Errorf("%w; %s can name a folder that has the programs", err, variable)
	}
	command := exec.CommandContext(ctx, "bash", script)
	var problem strings.Builder
	command.Stderr = &problem
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("build the programs with %s: %w: %s", script, err, problem.String())
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
