// Package programs has small complete programs that embed Podwright, each a test file of at most
// 120 lines. docs/guide/programs.md says what each shows.
package programs
