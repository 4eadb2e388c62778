package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var (
	// elsewhere matches a reference to a rule of another file.
	elsewhere = regexp.MustCompile("`?[a-z]+\\.md`?[^.;()]*?(?:[A-Z]{1,3}[0-9]+(?:[-, ]+[A-Z]{0,3}[0-9]+)*|sections? [0-9]+)")
	lettered  = regexp.MustCompile(`\b([A-Z]{1,3})([0-9]+)\b`)
	numbered  = regexp.MustCompile(`^- ([0-9]+\.[0-9]+) `)
	edgeCase  = regexp.MustCompile(`^([0-9]+)\. `)
	ranges    = regexp.MustCompile(`\b([A-Z]{1,3})([0-9]+)\s*(?:-|–|\.\.)\s*([A-Z]{0,3})([0-9]+)\b`)
	edges     = regexp.MustCompile(`(?i)edge[ _-]?(?:cases?)?[ _-]*([0-9]+(?:(?:\s*(?:,|-|–|and)\s*)[0-9]+)*)`)
	number    = regexp.MustCompile(`[0-9]+`)
)

// findRules returns the rule names a specification text defines: lettered ones
// with the given prefixes, or the numbers that open a list item if there are
// none, and "edge N" for each numbered edge case.
func findRules(text string, prefixes []string) []string {
	seen := map[string]bool{}
	var rules []string
	add := func(r string) {
		if !seen[r] {
			seen[r] = true
			rules = append(rules, r)
		}
	}
	known := map[string]bool{}
	for _, p := range prefixes {
		known[p] = true
	}
	inEdges := false
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "## ") {
			inEdges = strings.HasPrefix(line, "## Edge cases")
			continue
		}
		if inEdges {
			if m := edgeCase.FindStringSubmatch(line); m != nil {
				add("edge " + m[1])
			}
			continue
		}
		if len(prefixes) == 0 {
			if m := numbered.FindStringSubmatch(line); m != nil {
				add(m[1])
			}
			continue
		}
		for _, m := range lettered.FindAllStringSubmatch(elsewhere.ReplaceAllString(line, ""), -1) {
			if known[m[1]] {
				add(m[0])
			}
		}
	}
	return rules
}

// findMentions returns the rules a test text names.
func findMentions(text string, rules []string) []string {
	words := map[string]bool{}
	for _, m := range lettered.FindAllString(text, -1) {
		words[m] = true
	}
	for _, m := range ranges.FindAllStringSubmatch(text, -1) {
		if m[3] != "" && m[3] != m[1] {
			continue
		}
		from, _ := strconv.Atoi(m[2])
		to, _ := strconv.Atoi(m[4])
		for n := from; n <= to && n-from < 100; n++ {
			words[fmt.Sprintf("%s%d", m[1], n)] = true
		}
	}
	for _, m := range edges.FindAllStringSubmatch(text, -1) {
		for _, n := range number.FindAllString(m[1], -1) {
			words["edge "+n] = true
		}
		if parts := number.FindAllString(m[1], -1); len(parts) == 2 && strings.ContainsAny(m[1], "-–") {
			from, _ := strconv.Atoi(parts[0])
			to, _ := strconv.Atoi(parts[1])
			for n := from; n <= to && n-from < 100; n++ {
				words["edge "+strconv.Itoa(n)] = true
			}
		}
	}
	var out []string
	for _, r := range rules {
		if words[r] || strings.Contains(r, ".") && mentionsNumber(text, r) {
			out = append(out, r)
		}
	}
	return out
}

// mentionsNumber reports whether text names a numbered rule: the number as a separate word, not as
// part of 16.4.1 or 116.4.
func mentionsNumber(text, rule string) bool {
	for i := 0; ; {
		j := strings.Index(text[i:], rule)
		if j < 0 {
			return false
		}
		start, end := i+j, i+j+len(rule)
		before := start == 0 || !strings.ContainsRune("0123456789.", rune(text[start-1]))
		after := end == len(text) || !strings.ContainsRune("0123456789", rune(text[end])) &&
			!(text[end] == '.' && end+1 < len(text) && text[end+1] >= '0' && text[end+1] <= '9')
		if before && after {
			return true
		}
		i = end
	}
}
