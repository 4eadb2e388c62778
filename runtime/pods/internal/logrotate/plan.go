package logrotate

import (
	"slices"
	"strings"
	"time"
)

const (
	stampFormat = "20060102-150405"
	compressed  = ".gz"
	unfinished  = ".tmp"
	// lastYear is the last year of a plausible stamp. A file with a later stamp
	// would leave no name that sorts after it.
	lastYear = 9000
)

// Plan is what is done to rotated files before the log is rotated.
type Plan struct {
	// Remove and Compress have names, oldest first.
	Remove, Compress []string
}

// MakePlan decides what happens to the rotated files of log among names so that
// with the rotation that follows there are at most maxFiles files. It removes files
// whose compression was cut short, originals that have been compressed, and then
// the oldest. Other files in the folder are left alone.
func MakePlan(log string, names []string, maxFiles int) Plan {
	var plan Plan
	zipped := map[string]bool{}
	var rotated []string // without the suffix of compression
	for _, name := range names {
		if base, ok := strings.CutSuffix(name, unfinished); ok {
			if _, ok := stampOf(log, base); ok {
				plan.Remove = append(plan.Remove, name)
			}
			continue
		}
		base, zip := strings.CutSuffix(name, compressed)
		if _, ok := stampOf(log, base); !ok {
			continue
		}
		rotated = append(rotated, base)
		zipped[base] = zipped[base] || zip
	}
	slices.Sort(plan.Remove)
	slices.Sort(rotated)
	all := rotated
	rotated = slices.Compact(slices.Clone(rotated))
	excess := max(0, len(rotated)-max(0, maxFiles-2))
	for i, base := range rotated {
		both := zipped[base] && count(all, base) > 1
		if both {
			plan.Remove = append(plan.Remove, base)
		}
		switch {
		case i < excess && zipped[base]:
			plan.Remove = append(plan.Remove, base+compressed)
		case i < excess:
			plan.Remove = append(plan.Remove, base)
		case !zipped[base]:
			plan.Compress = append(plan.Compress, base)
		}
	}
	return plan
}

func count(names []string, name string) (n int) {
	for _, other := range names {
		if other == name {
			n++
		}
	}
	return n
}

// Name returns the name of log after its rotation at now. It sorts after every
// rotated file there is, even if the clock was set back.
func Name(log string, names []string, now time.Time) string {
	stamp := now.UTC().Truncate(time.Second)
	for _, name := range names {
		base := strings.TrimSuffix(strings.TrimSuffix(name, unfinished), compressed)
		if t, ok := stampOf(log, base); ok && !stamp.After(t) {
			stamp = t.Add(time.Second)
		}
	}
	return log + "." + stamp.Format(stampFormat)
}

// Newest returns the latest rotated file of log, and false if that is compressed or
// there is none.
func Newest(log string, names []string) (string, bool) {
	newest := ""
	for _, name := range names {
		base := strings.TrimSuffix(name, compressed)
		if _, ok := stampOf(log, base); ok && name > newest {
			newest = name
		}
	}
	return newest, newest != "" && !strings.HasSuffix(newest, compressed)
}

// Rotated returns the rotated files of log among names without the suffix of compression, in
// the order of writing.
func Rotated(log string, names []string) []string {
	var out []string
	for _, name := range names {
		base := strings.TrimSuffix(name, compressed)
		if _, ok := stampOf(log, base); ok {
			out = append(out, base)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Compressed returns what a rotated file is called once it is compressed.
func Compressed(base string) string { return base + compressed }

// stampOf returns when a file was rotated, and false for a file that is not a
// rotated one of log.
func stampOf(log, name string) (time.Time, bool) {
	text, ok := strings.CutPrefix(name, log+".")
	if !ok || len(text) != len(stampFormat) {
		return time.Time{}, false
	}
	t, err := time.Parse(stampFormat, text)
	return t, err == nil && t.Year() < lastYear
}
