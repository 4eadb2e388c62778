package houserules

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// plainWords wants comments, messages and pages in the words an engineer uses, and
// names that say what a thing is. A phrase may go over the end of a line.
func plainWords(tr *tree, report report) {
	for _, file := range tr.texts {
		if !strings.HasSuffix(file.path, ".md") {
			continue
		}
		for _, odd := range oddPhrases(file.content) {
			report("%s:%d: %q; say it in plain words", file.path, 1+odd.line, odd.words)
		}
	}
	for _, s := range tr.files {
		if s.dir == "internal/houserules" {
			continue
		}
		for _, group := range s.syntax.Comments {
			for _, odd := range oddPhrases(commentText(group)) {
				report("%s:%d: %q; say it in plain words", s.path, tr.fset.Position(group.Pos()).Line+odd.line, odd.words)
			}
		}
		if !s.test {
			tr.oddLiterals(s, report)
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

// oddLiterals reads what a program says: messages, errors, events, texts of help. The literal
// halves of a text that goes on in the next line are read as one.
func (tr *tree) oddLiterals(s *source, report report) {
	read := map[ast.Node]bool{}
	ast.Inspect(s.syntax, func(n ast.Node) bool {
		e, ok := n.(ast.Expr)
		if !ok || read[n] {
			return true
		}
		text, parts := literalText(e)
		for _, part := range parts {
			read[part] = true
		}
		for _, odd := range oddPhrases(namesOfThings.ReplaceAllString(text, "")) {
			report("%s: %q in a text; say it in plain words", tr.at(s, e.Pos()), odd.words)
		}
		return true
	})
}

// literalText returns the text of a literal or of a sum of literals, and its parts.
func literalText(e ast.Expr) (text string, parts []ast.Node) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, _ = strconv.Unquote(e.Value) // the parser has read it
			return text, []ast.Node{e}
		}
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			left, leftParts := literalText(e.X)
			right, rightParts := literalText(e.Y)
			// What is between two literals is a value.
			return left + right, append(append(leftParts, rightParts...), e)
		}
	case *ast.ParenExpr:
		text, parts = literalText(e.X)
		return text, append(parts, e)
	}
	return "", nil
}

// namesOfThings are odd words that are names: of a user in a file of users.
var namesOfThings = regexp.MustCompile(`(?m)^nobody:x:.*$`)

// commentText is the text of comments with their marks as spaces, so that lines stay lines.
func commentText(group *ast.CommentGroup) string {
	var lines []string
	for _, c := range group.List {
		text := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(c.Text, "//"), "/*"), "*/")
		lines = append(lines, text)
	}
	return strings.Join(lines, "\n")
}

// oddPhrases returns the odd words of a text, and on which line they begin, from 0.
func oddPhrases(text string) (out []oddPhrase) {
	for _, pattern := range []*regexp.Regexp{oddWords, oddSubject} {
		for _, at := range pattern.FindAllStringSubmatchIndex(text, -1) {
			out = append(out, oddPhrase{text[at[2]:at[3]], strings.Count(text[:at[2]], "\n")})
		}
	}
	return out
}

type oddPhrase struct {
	words string
	line  int
}

// oddWords are words that read as translated.
var oddWords = regexp.MustCompile(`(?i)\b(nobody|anew|for\s+people|(?:him|her)self|for\s+ever|by\s+chance|(?:puts?|putting)\s+off|which\s+is\s+so` +
	`|(?:of|with|for|is|are)\s+such[.,;:]|such\s+(?:is|are|was|were|has|have)|thereof|whereof|therein|wherein|hereby|henceforth|hitherto)(?:\b|$|\s)`)

// oddSubject is a statement with "who" as its subject; a question ends with its mark.
var oddSubject = regexp.MustCompile(`\b(Who\s+(?:has|had|is|wants|needs|reads|asks|can|uses|does|gives|takes|writes|cannot|opens|sends|makes))\s[^?.;|]*[.;]`)

// opaqueNames are words in names that hide what a thing is.
var opaqueNames = set("sight", "uncut", "door", "doubt", "twin", "twins", "wiped", "tidier", "tidiers", "settle", "settled", "settling", "unsettled", "doubtful", "proven")

// declared calls f for each name a file declares: functions, types, values, fields,
// parameters, methods and variables.
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
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				names = identifiers(n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				names = identifiers(n.Key, n.Value)
			}
		}
		for _, id := range names {
			f(id)
		}
		return true
	})
}

// identifiers returns the expressions that are plain names.
func identifiers(all ...ast.Expr) (names []*ast.Ident) {
	for _, e := range all {
		if id, ok := e.(*ast.Ident); ok {
			names = append(names, id)
		}
	}
	return names
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
