package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/runtime/pods"
)

// logOptions are the part of the command line about container logs.
type logOptions struct {
	maxSize  string
	links    string
	rotation pods.LogRotation
}

func (o *logOptions) register(flags *pflag.FlagSet) {
	flags.StringVar(&o.maxSize, "container-log-max-size", "10Mi", "size at which a container's log is rotated; 0 or negative: never")
	flags.IntVar(&o.rotation.MaxFiles, "container-log-max-files", 5, "how many log files a container may have, at least 2")
	flags.StringVar(&o.links, "container-log-links", "", "folder for links to the logs of containers, such as /var/log/containers (default: no links)")
}

// complete checks the options.
func (o *logOptions) complete() error {
	var problems []error
	size, err := resource.ParseQuantity(o.maxSize)
	if err != nil {
		problems = append(problems, fmt.Errorf("--container-log-max-size %q: want a number of bytes such as 10Mi", o.maxSize))
	}
	if o.rotation.MaxSize = size.Value(); o.rotation.MaxSize == 0 {
		o.rotation.MaxSize = -1
	}
	if o.rotation.MaxFiles < 2 {
		problems = append(problems, fmt.Errorf("--container-log-max-files %d: at least 2 are needed, the log and a rotated one", o.rotation.MaxFiles))
	}
	if o.links != "" {
		if o.links, err = filepath.Abs(o.links); err != nil {
			problems = append(problems, fmt.Errorf("--container-log-links: %w", err))
		}
	}
	return errors.Join(problems...)
}
