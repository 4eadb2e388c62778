package main

import (
	"fmt"
	"go/types"
	"slices"
	"strings"
)

// text describes the exported API of a package, one sorted line per name, field
// and method, below a line with the number of names.
func text(pkg *types.Package, module string) string {
	d := &description{pkg: pkg, module: module}
	names := 0
	for _, name := range pkg.Scope().Names() {
		if object := pkg.Scope().Lookup(name); object.Exported() {
			names++
			d.object(object)
		}
	}
	slices.Sort(d.lines)
	return fmt.Sprintf("# %s: %d exported names\n%s\n", pkg.Path(), names, strings.Join(slices.Compact(d.lines), "\n"))
}

type description struct {
	pkg    *types.Package
	module string
	lines  []string
}

func (d *description) add(format string, args ...any) {
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// qualifier names another package: ours by its path, so that internal types are recognizable.
func (d *description) qualifier(p *types.Package) string {
	if p == d.pkg {
		return ""
	}
	return strings.TrimPrefix(p.Path(), d.module+"/")
}

func (d *description) typ(t types.Type) string { return types.TypeString(t, d.qualifier) }

func (d *description) object(o types.Object) {
	switch o := o.(type) {
	case *types.Const:
		d.add("const %s %s = %s", o.Name(), d.typ(o.Type()), o.Val().ExactString())
	case *types.Var:
		d.add("var %s %s", o.Name(), d.typ(o.Type()))
	case *types.Func:
		d.add("func %s%s", o.Name(), d.signature(o))
	case *types.TypeName:
		d.typeName(o)
	}
}

// signature returns the parameters and results of a function, without the names of parameters,
// which are not part of the contract.
func (d *description) signature(f *types.Func) string {
	s := f.Type().(*types.Signature)
	bare := types.NewSignatureType(nil, nil, typeParams(s.TypeParams()), unnamed(s.Params()), unnamed(s.Results()), s.Variadic())
	return strings.TrimPrefix(d.typ(bare), "func")
}

// typeParams copies type parameters: each belongs to a single signature.
func typeParams(list *types.TypeParamList) []*types.TypeParam {
	var out []*types.TypeParam
	for p := range list.TypeParams() {
		out = append(out, types.NewTypeParam(types.NewTypeName(0, p.Obj().Pkg(), p.Obj().Name(), nil), p.Constraint()))
	}
	return out
}

func unnamed(t *types.Tuple) *types.Tuple {
	var out []*types.Var
	for v := range t.Variables() {
		out = append(out, types.NewParam(0, nil, "", v.Type()))
	}
	return types.NewTuple(out...)
}

func (d *description) typeName(o *types.TypeName) {
	named, ok := types.Unalias(o.Type()).(*types.Named)
	if o.IsAlias() {
		d.add("type %s = %s", o.Name(), d.typ(types.Unalias(o.Type())))
		// Users see an internal type only here.
		if !ok || !strings.Contains(named.Obj().Pkg().Path()+"/", "/internal/") {
			return
		}
	}
	name := o.Name()
	switch u := named.Underlying().(type) {
	case *types.Struct:
		if !o.IsAlias() {
			d.add("type %s%s struct", name, d.parameters(named))
		}
		d.fields(name, u)
		d.methods(name, named)
	case *types.Interface:
		if !o.IsAlias() {
			d.add("type %s%s interface", name, d.parameters(named))
		}
		d.interfaceMethods(name, u)
	default:
		if !o.IsAlias() {
			d.add("type %s%s %s", name, d.parameters(named), d.typ(u))
		}
		d.methods(name, named)
	}
}

func (d *description) parameters(named *types.Named) string {
	var parts []string
	for p := range named.TypeParams().TypeParams() {
		parts = append(parts, p.Obj().Name()+" "+d.typ(p.Constraint()))
	}
	if len(parts) == 0 {
		return ""
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// fields lists exported fields, and those that an unexported embedded struct adds.
func (d *description) fields(name string, s *types.Struct) {
	for f := range s.Fields() {
		switch {
		case f.Exported() && f.Embedded():
			d.add("type %s struct, embeds %s", name, d.typ(f.Type()))
		case f.Exported():
			d.add("type %s struct, %s %s", name, f.Name(), d.typ(f.Type()))
		case f.Embedded():
			if inner, ok := deref(f.Type()).Underlying().(*types.Struct); ok {
				d.fields(name, inner)
			}
		}
	}
}

// methods lists the methods of a type, and those that an unexported embedded field adds. The
// methods of an exported embedded field follow from the line that says it is embedded.
func (d *description) methods(name string, named *types.Named) {
	values := types.NewMethodSet(named)
	set := types.NewMethodSet(types.NewPointer(named))
	for i := range set.Len() {
		m := set.At(i)
		f := m.Obj().(*types.Func)
		if !f.Exported() || len(m.Index()) > 1 && promotedByExported(named, m.Index()[0]) {
			continue
		}
		receiver := "*" + name
		if values.Lookup(f.Pkg(), f.Name()) != nil {
			receiver = name
		}
		d.add("method (%s) %s%s", receiver, f.Name(), d.signature(f))
	}
}

func promotedByExported(named *types.Named, field int) bool {
	s, ok := named.Underlying().(*types.Struct)
	return ok && s.Field(field).Exported()
}

func (d *description) interfaceMethods(name string, i *types.Interface) {
	for f := range i.ExplicitMethods() {
		if f.Exported() {
			d.add("type %s interface, %s%s", name, f.Name(), d.signature(f))
		} else {
			d.add("type %s interface, unexported methods", name)
		}
	}
	for e := range i.EmbeddedTypes() {
		d.add("type %s interface, embeds %s", name, d.typ(e))
	}
}

func deref(t types.Type) types.Type {
	if p, ok := t.(*types.Pointer); ok {
		return p.Elem()
	}
	return t
}
