// Package logrotate rotates one container's log file (spec/runtime.md 18.4).
//
//	names in the folder ──► MakePlan ──► drop, compress ──► rename ──► reopen
//	                         (pure)           (Rotation)                │ fails
//	                                           rename back ◄────────────┘
//
// Rotated files are called <log>.<YYYYMMDD-HHMMSS>, with .gz once compressed; read
// in the order of their names, and then the log itself, they hold all lines. After
// an interruption the next rotation continues from what it finds: no line is lost
// or doubled.
package logrotate
