package houserules

import (
	"go/ast"
	"regexp"
	"strings"
	"unicode"
)

// plainWords wants comments, messages and pages in the words an engineer uses, and
// names that say what a thing is.
func plainWords(tr *tree, report report) {
	for _, file := range tr.texts {
		if !strings.HasSuffix(file.path, ".md") {
			continue
		}
		for i, line := range strings.Split(file.content, "\n") {
			for _, word := range oddWords.FindAllString(line, -1) {
				report("%s:%d: %q; say it in plain words", file.path, i+1, word)
			}
		}
	}
	for _, s := range tr.files {
		if s.dir == "internal/houserules" {
			continue
		}
		for _, group := range s.syntax.Comments {
			for _, c := range group.List {
				for _, word := range oddWords.FindAllString(c.Text, -1) {
					report("%s: %q; say it in plain words", tr.at(s, c.Pos()), word)
				}
			}
		}
		declared(s, func(id *ast.Ident) {
			for _, word := range camelWords(id.Name) {
				if opaqueNames[word] {
					report("%s: the name %s says nothing to a reader", tr.at(s, id.Pos()), id.Name)
				}
			}
		})
	}
}

// oddWords are words that read as translated.
var oddWords = regexp.MustCompile(`(?i)\b(nobody|anew|for people|himself)\b`)

// opaqueNames are words in names that hide what a thing is.
var opaqueNames = set("sight", "uncut", "door", "doubt", "twin", "twins", "wiped", "tidier", "tidiers", "settle", "settled")

// declared calls f for each name a file declares: functions, types, values, fields,
// parameters and methods.
func declared(s *source, f func(*ast.Ident)) {
	ast.Inspect(s.syntax, func(n ast.Node) bool {
		var names []*ast.Ident
		switch n := n.(type) {
		case *ast.FuncDecl:
			names = []*ast.Ident{n.Name}
		case *ast.TypeSpec:
			names = []*ast.Ident{n.Name}
		case *ast.ValueSpec:
			names = n.Names
		case *ast.Field:
			names = n.Names
		}
		for _, id := range names {
			f(id)
		}
		return true
	})
}

// camelWords splits a name into its words in lower case.
func camelWords(name string) []string {
	var words []string
	start := 0
	for i, r := range name {
		if i > start && unicode.IsUpper(r) {
			words = append(words, strings.ToLower(name[start:i]))
			start = i
		}
	}
	return append(words, strings.ToLower(name[start:]))
}
