package houserules

import (
	"go/token"
	"strconv"
)

// randomPackages are those whose numbers may decide something. Those of crypto/rand are for
// secrets, and for the seeds of these.
var randomPackages = []string{"math/rand", "math/rand/v2"}

// randomTypes are their names that neither draw a number nor make a source.
var randomTypes = set("Rand", "Source", "Source64", "PCG", "ChaCha8", "Zipf")

// randomMakers are their functions that make a source.
var randomMakers = set("New", "NewPCG", "NewChaCha8", "NewSource", "NewZipf")

// randomOwners are the files that may make a source, and why.
var randomOwners = map[string]string{
	"internal/containerdtest/containerdtest.go": "the bytes of an image, from its name",
	"internal/timing/jitter.go":                 "the default of the options of the engine's parts",
	"kube/certs/options.go":                     "the default of Options.Rand",
	"kube/tokens/options.go":                    "the default of Options.Rand",
	"runtime/pods/options.go":                   "the default of Options.Rand",
	"status/checkpoint/reserve.go":              "bytes that do not compress, always the same",
}

// randomnessIsAnOption: what is drawn from the process-wide source, or from a source that is
// made in mid-code, cannot be repeated by a test.
func randomnessIsAnOption(tr *tree, report report) {
	for _, s := range tr.files {
		if s.test || s.room() == "examples" || s.room() == "tools" {
			continue
		}
		for _, p := range randomPackages {
			for _, spec := range s.syntax.Imports {
				if imported, _ := strconv.Unquote(spec.Path.Value); imported == p && spec.Name != nil && spec.Name.Name == "." {
					report("%s: dot import of %s; its functions would look like ours", tr.at(s, spec.Pos()), p)
				}
			}
			tr.uses(s, p, func(pos token.Pos, name string) {
				switch {
				case randomTypes[name], randomMakers[name] && randomOwners[s.path] != "":
				case randomMakers[name]:
					report("%s: rand.%s; take the source in the options", tr.at(s, pos), name)
				default:
					report("%s: rand.%s of the process-wide source; take a source in the options", tr.at(s, pos), name)
				}
			})
		}
	}
}

// makesRandomSource reports whether a file uses one of randomMakers.
func makesRandomSource(tr *tree, file string) (makes bool) {
	for _, s := range tr.files {
		for _, p := range randomPackages {
			if s.path == file {
				tr.calls(s, p, randomMakers, func(token.Pos, string) { makes = true })
			}
		}
	}
	return makes
}

func randomRules() []rule {
	return []rule{{
		name: "randomness is an option", check: randomnessIsAnOption,
		breach: map[string]string{
			"pleg/a.go":                  body("math/rand", "_ = rand.Intn(3)"),
			"pleg/b.go":                  body("math/rand/v2", "_ = rand.Float64()"),
			"pleg/c.go":                  "package p\n\nimport chance \"math/rand/v2\"\n\nvar f = chance.Float64\n",
			"pleg/d.go":                  "package p\n\nimport . \"math/rand/v2\"\n\nvar f = IntN(3)\n",
			"pleg/e.go":                  body("math/rand/v2", "_ = rand.New(rand.NewPCG(1, 2)).Float64()"),
			"pleg/f.go":                  "package p\n\nimport (\n\ta \"math/rand\"\n\tb \"math/rand\"\n)\n\nvar f, g = a.Int(), b.Int()\n",
			"internal/timing/jitter.go":  body("math/rand/v2", "_ = rand.IntN(3)"),
			"kube/certs/a.go":            body("math/rand/v2", "_ = rand.N(3)"),
			"kube/cmd/main.go":           "package main\n\nimport \"math/rand\"\n\nvar f = rand.Int()\n",
			"internal/enginetest/rig.go": body("math/rand/v2", "_ = rand.Int()"),
		},
		keeps: map[string]string{
			"pleg/a.go":                 "package p\n\nimport \"math/rand/v2\"\n\nfunc f(r *rand.Rand) float64 { return r.Float64() }\n",
			"internal/timing/jitter.go": body("math/rand/v2", "_ = rand.New(rand.NewPCG(1, 2)).Float64()"),
			"pleg/a_test.go":            body("math/rand/v2", "_ = rand.IntN(3)"),
			"examples/a/a.go":           body("math/rand/v2", "_ = rand.IntN(3)"),
			"pleg/b.go":                 body("crypto/rand", "_ = rand.Text()"),
		},
		finds: []string{
			"pleg/a.go:5: rand.Intn", "pleg/b.go:5: rand.Float64", "pleg/c.go:5: rand.Float64", "pleg/d.go:3: dot import of math/rand/v2",
			"pleg/e.go:5: rand.New;", "pleg/e.go:5: rand.NewPCG;", "pleg/f.go:8: rand.Int of", "pleg/f.go:8: rand.Int of",
			"internal/timing/jitter.go:5: rand.IntN", "kube/certs/a.go:5: rand.N of", "kube/cmd/main.go:5: rand.Int of", "internal/enginetest/rig.go:5: rand.Int of",
		},
	}}
}
