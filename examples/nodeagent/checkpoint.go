package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"sigs.k8s.io/yaml"

	"github.com/podwright/podwright/status/checkpoint"
)

// checkpoints shows what the agent remembers of its pods, whether it runs or not:
// "checkpoint list" and "checkpoint show UID". It changes nothing.
func checkpoints(args []string, stdout, stderr io.Writer) int {
	if err := checkpointCommand(args, stdout, stderr); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		fmt.Fprintln(stderr, "nodeagent:", printableLines(err.Error()))
		return 1
	}
	return 0
}

var errCheckpointUsage = errors.New("want checkpoint list, or checkpoint show UID")

func checkpointCommand(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("nodeagent checkpoint", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "Usage: nodeagent checkpoint list|show UID [--root DIR] [--record-key-file FILE]")
		flags.PrintDefaults()
	}
	root := flags.String("root", defaultRoot(), "the agent's folder")
	var keys keyOptions
	keys.register(flags, false)
	var words []string
	for len(args) > 0 { // flags may stand anywhere
		if err := flags.Parse(args); err != nil {
			return err
		}
		if args = flags.Args(); len(args) > 0 {
			words, args = append(words, args[0]), args[1:]
		}
	}
	if *root == "" {
		return errors.New("--root is required")
	}
	store := checkpoint.NewFiles(checkpoint.Dir(filepath.Join(*root, "state", "pods")))
	if err := keys.complete(); err != nil {
		return err
	}
	// With a key, what is not sealed is shown as such, and not as a record.
	if err := store.Seal(keys.keys, false); err != nil {
		return err
	}
	loaded, err := store.Inspect(context.Background())
	if err != nil {
		return err
	}
	switch {
	case len(words) == 1 && words[0] == "list":
		return listCheckpoints(stdout, loaded)
	case len(words) == 2 && words[0] == "show":
		return showCheckpoint(stdout, loaded, words[1])
	}
	return errCheckpointUsage
}

// listCheckpoints prints a table of all records, then what is none.
func listCheckpoints(out io.Writer, loaded checkpoint.Loaded) error {
	slices.SortFunc(loaded.Records, func(a, b *checkpoint.Record) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "NAMESPACE\tNAME\tUID\tPHASE\tSTATE\tRESTARTS\tWRITTEN")
	for _, r := range loaded.Records {
		phase, restarts := "-", int32(0)
		if r.Status != nil {
			phase = string(r.Status.Phase)
		}
		for i := range r.Containers {
			restarts += r.Containers[i].RestartCount
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n",
			printable(r.Namespace), printable(r.Name), printable(string(r.UID)), printable(phase), printable(stateOf(r)), restarts, r.WrittenAt.UTC().Format("2006-01-02T15:04:05Z"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, b := range loaded.Bad {
		fmt.Fprintln(out, "unusable:", printable(b.String()))
	}
	return nil
}

// stateOf says how far the life of a pod has come.
func stateOf(r *checkpoint.Record) string {
	switch {
	case r.Finished:
		return "finished"
	case !r.TerminatedAt.IsZero():
		return "terminated"
	case r.Termination != nil:
		return "stopping: " + string(r.Termination.Cause)
	case !r.StartedAt.IsZero():
		return "started"
	case r.Admission != nil && r.Admission.Refused:
		return "refused"
	default:
		return "admitted"
	}
}

// showCheckpoint prints one record without what may be a secret.
func showCheckpoint(out io.Writer, loaded checkpoint.Loaded, uid string) error {
	for _, r := range loaded.Records {
		if string(r.UID) != uid {
			continue
		}
		text, err := yaml.Marshal(r.Redacted())
		if err == nil {
			_, err = io.WriteString(out, printableLines(string(text)))
		}
		return err
	}
	for _, b := range loaded.Bad {
		if b.Name == uid {
			return fmt.Errorf("the checkpoint cannot be used: %s", b)
		}
	}
	return fmt.Errorf("no checkpoint of a pod with UID %q", uid)
}
