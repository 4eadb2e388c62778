// Package crilog writes the log file of a container in the format of the
// Container Runtime Interface: one line per line of output,
//
//	2026-01-02T03:04:05.000000006Z stdout F text
//
// with the stream (stdout or stderr) and F for a line that is whole or P for a
// part of a line that continues in the next entry of the same stream, or that
// ended without a newline (spec/runtime.md 18.3). It reads no logs and rotates
// none; [Writer.Reopen] follows a rotation by another program.
package crilog
