// Package fields says what becomes of each field of a pod (spec/fields.md FD1): it is honoured,
// refused, waited for, or without effect on a node.
//
//	core/v1 types ──► Check ◄── Table (data: table.go, volumes.go)
//	                    │          └──► Markdown ──► docs/fields.md
//	                    └──► fields without a verdict, verdicts without a field
//
// Nothing reads the table at run time; tests keep it and the code consistent.
package fields
