// Package memory reads what the kernel says of the machine's memory: its table ([Table], [Available]), and what it keeps as huge
// pages ([HugePages]).
package memory
