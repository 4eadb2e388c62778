package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// format is the flag -o of commands that show something.
type format string

// register declares -o; forms are its values besides "", which is plain text.
func (f *format) register(c *cobra.Command, forms ...string) {
	usual := "a text"
	if forms[0] == "table" {
		usual = "table"
	}
	c.Flags().StringVarP((*string)(f), "output", "o", "", fmt.Sprintf("%s (default: %s)", strings.Join(forms, ", "), usual))
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(forms, cobra.ShellCompDirectiveNoFileComp)) // fails only for unknown flags
	check := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		if *f != "" && !slices.Contains(forms, string(*f)) {
			return exit{codeUsage, fmt.Errorf("--output %q: want %s", string(*f), strings.Join(forms, " or "))}
		}
		if check != nil {
			return check(c, args)
		}
		return nil
	}
}

// write prints an answer of the agent, which is JSON, as JSON or YAML.
func (f format) write(w io.Writer, answer []byte) error {
	if f == "yaml" {
		text, err := yaml.JSONToYAML(answer)
		if err != nil {
			return unreadableAnswer(err)
		}
		answer = text
	}
	_, err := w.Write(answer)
	return err
}

// decode reads an answer.
func decode[T any](answer []byte) (T, error) {
	var out T
	if err := json.Unmarshal(answer, &out); err != nil {
		return out, unreadableAnswer(err)
	}
	return out, nil
}

func unreadableAnswer(err error) error {
	return exit{codeUnreachable, errors.New("the answer cannot be read, so what answers may be no nodeagent: " + err.Error())}
}
