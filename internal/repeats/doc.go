// Package repeats keeps an event that occurs again and again from being told each time: it is told
// when it occurs for the first time, then when it has occurred 2, 4, 8... times, and, if that is
// wanted, when it was not told for a while.
//
//	occurrence ──► Table.Note(key) ──► Count, Over, Due
package repeats
