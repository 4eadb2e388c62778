package houserules

import (
	"go/ast"
	"go/token"
	"regexp"
	"strings"
)

// aliasesShowFields wants the doc of a public alias of an internal struct to name the struct's
// exported fields: go doc shows an alias without them, and no user can look into internal/.
func aliasesShowFields(tr *tree, report report) {
	structs := structsOf(tr)
	for _, s := range tr.files {
		if !s.library() || s.internal() {
			continue
		}
		eachType(s, func(doc string, spec *ast.TypeSpec) {
			target, ok := spec.Type.(*ast.SelectorExpr)
			if !ok || !spec.Assign.IsValid() || !spec.Name.IsExported() {
				return
			}
			var missing []string
			for _, field := range structs[aliased(s, target)] {
				if !regexp.MustCompile(`\b` + field + `\b`).MatchString(doc) {
					missing = append(missing, field)
				}
			}
			if len(missing) > 0 {
				report("%s: go doc hides the fields of %s: its comment has to name %s", tr.at(s, spec.Pos()), spec.Name.Name, strings.Join(missing, ", "))
			}
		})
	}
}

// structsOf lists the exported fields of the structs of internal packages, by folder and name, and of their aliases.
func structsOf(tr *tree) map[string][]string {
	structs, aliases := map[string][]string{}, map[string]string{}
	for _, s := range tr.files {
		if !s.internal() || s.test {
			continue
		}
		eachType(s, func(_ string, spec *ast.TypeSpec) {
			name := s.dir + "." + spec.Name.Name
			switch t := spec.Type.(type) {
			case *ast.SelectorExpr:
				aliases[name] = aliased(s, t)
			case *ast.StructType:
				for _, field := range t.Fields.List {
					for _, id := range field.Names {
						if id.IsExported() {
							structs[name] = append(structs[name], id.Name)
						}
					}
				}
			}
		})
	}
	for name, of := range aliases {
		structs[name] = structs[of]
	}
	return structs
}

// aliased is the folder and name of a type of another package of the module.
func aliased(s *source, t *ast.SelectorExpr) string {
	id, ok := t.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return s.importedDirs()[id.Name] + "." + t.Sel.Name
}

// eachType calls f for each type that a file declares.
func eachType(s *source, f func(doc string, spec *ast.TypeSpec)) {
	for _, d := range s.syntax.Decls {
		d, ok := d.(*ast.GenDecl)
		if !ok || d.Tok != token.TYPE {
			continue
		}
		for _, spec := range d.Specs {
			spec := spec.(*ast.TypeSpec)
			f(d.Doc.Text()+spec.Doc.Text(), spec)
		}
	}
}

func aliasRules() []rule {
	return []rule{{
		name: "aliases show fields", check: aliasesShowFields,
		breach: map[string]string{
			"pleg/a.go":       "package pleg\n\nimport \"" + module + "/internal/b\"\n\n// A has One.\ntype A = b.B\n\ntype C = b.D\n",
			"internal/b/b.go": "package b\n\nimport \"" + module + "/internal/e\"\n\ntype B struct{ One, Two, three int }\n\ntype D = e.E\n",
			"internal/e/e.go": "package e\n\ntype E struct{ Four int }\n",
		},
		keeps: map[string]string{
			"pleg/a.go":       "package pleg\n\nimport \"" + module + "/internal/b\"\n\n// A has One and Two.\ntype A = b.B\n\ntype C = b.D\n",
			"internal/b/b.go": "package b\n\ntype B struct{ One, Two, three int }\n\ntype D int\n\ntype hidden struct{ F int }\n",
		},
		finds: []string{"the fields of A: its comment has to name Two", "the fields of C: its comment has to name Four"},
	}}
}
