// Package fields says what becomes of each field of a pod (spec/fields.md FD1): it is honoured,
// refused, waited for, or without effect on a node.
//
//	core/v1 types ──► Check ◄── Table (data: table.go, volumes.go)
//	                    │          └──► Markdown ──► docs/fields.md
//	                    └──► fields without a verdict, verdicts without a field
//
// Nothing at run time reads the table; tests hold it and the code to one another.
package fields
