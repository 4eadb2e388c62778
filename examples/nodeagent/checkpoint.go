package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/podwright/podwright/status/checkpoint"
)

// newCheckpoint is "nodeagent checkpoint": it shows what the agent remembers of its pods, whether
// or not the agent runs, and changes nothing.
func newCheckpoint() *cobra.Command {
	var records recordReader
	c := &cobra.Command{
		Use: "checkpoint", Aliases: []string{"cp"}, Short: "what is remembered of the pods on the disk, whether the agent runs or not",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit{codeUsage, fmt.Errorf("%q: want checkpoint list, or checkpoint show UID", args[0])}
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error {
			return exit{codeUsage, errors.New("want checkpoint list, or checkpoint show UID")}
		},
	}
	c.PersistentFlags().StringVar(&records.config, "config", os.Getenv(configVariable), "the agent's configuration, which says where its folder is")
	c.PersistentFlags().StringVar(&records.root, "root", defaultRoot(), "the agent's folder")
	records.keys.register(c.PersistentFlags(), false)
	c.AddCommand(&cobra.Command{
		Use: "list", Short: "a line for each record", Args: exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			loaded, err := records.read(c)
			if err != nil {
				return err
			}
			return listCheckpoints(c.OutOrStdout(), loaded)
		},
	}, &cobra.Command{
		Use: "show UID", Short: "one record, without what may be secret", Args: exactly(1, "one UID"),
		RunE: func(c *cobra.Command, args []string) error {
			loaded, err := records.read(c)
			if err != nil {
				return err
			}
			return showCheckpoint(c.OutOrStdout(), loaded, args[0])
		},
	})
	return c
}

// recordReader reads the records of an agent's folder.
type recordReader struct {
	config, root string
	keys         keyOptions
}

func (r *recordReader) read(c *cobra.Command) (checkpoint.Loaded, error) {
	if err := r.configured(c.Flags()); err != nil {
		return checkpoint.Loaded{}, exit{codeUsage, err}
	}
	if r.root == "" {
		return checkpoint.Loaded{}, exit{codeUsage, errors.New("--root is required")}
	}
	dir := filepath.Join(r.root, "state", "pods")
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return checkpoint.Loaded{}, fmt.Errorf("no agent has kept records in %s: say where its folder is with --root or --config: %w", r.root, err)
	}
	store := checkpoint.NewFiles(checkpoint.Dir(dir))
	if err := r.keys.complete(); err != nil {
		return checkpoint.Loaded{}, exit{codeUsage, err}
	}
	// With a key, an unsealed file is listed as unusable rather than as a record.
	if err := store.Seal(r.keys.keys, false); err != nil {
		return checkpoint.Loaded{}, err
	}
	return store.Inspect(c.Context())
}

// configured reads from the agent's configuration where its folder and its keys are, if the command line does
// not say which agent is meant.
func (r *recordReader) configured(flags *pflag.FlagSet) error {
	if flags.Changed("root") && !flags.Changed("config") {
		return nil
	}
	agent, err := configuredAgent(r.config)
	if err != nil || agent == nil {
		return err
	}
	if !flags.Changed("root") {
		r.root = agent.root
	}
	if !flags.Changed("record-key-file") {
		r.keys.file = agent.keys.file
	}
	return nil
}

// listCheckpoints prints a table of all records, then the files that are unusable.
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

// stateOf says how far the life of a pod has progressed.
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

// showCheckpoint prints one record, without anything that may be a secret.
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
	return exit{codeNotFound, fmt.Errorf("no checkpoint of a pod with UID %q", uid)}
}
