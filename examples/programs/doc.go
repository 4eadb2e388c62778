// Package programs has whole small programs that embed Podwright, a test file of at most 120
// lines each. docs/guide/programs.md says what each shows.
package programs
