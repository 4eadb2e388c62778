package main

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestProgramPagesAreReadOnlyFiles(t *testing.T) {
	for _, test := range []struct {
		line       string
		begin, end uintptr
	}{
		{"00400000-0110b000 r-xp 00000000 fe:00 10004463                           /usr/bin/nodeagent", 0x400000, 0x110b000},
		{"0110b000-01e88000 r--p 00d0b000 fe:00 10004463                           /usr/bin/nodeagent", 0x110b000, 0x1e88000},
		{"0110b000-01e88000 r--p 00d0b000 fe:00 10004463                           /usr/bin/nodeagent (deleted)", 0x110b000, 0x1e88000},
		{"01e88000-01ec9000 rw-p 01a88000 fe:00 10004463                           /usr/bin/nodeagent", 0, 0},
		{"7f6881386000-7f68813ac000 r--s 00000000 fe:00 326269                     /run/shared", 0, 0},
		{"01ec9000-01f11000 r--p 00000000 00:00 0 ", 0, 0},
		{"7ffd4d1a3000-7ffd4d1a5000 r-xp 00000000 00:00 0                          [vdso]", 0, 0},
		{"x-y r-xp 00000000 fe:00 1 /usr/bin/nodeagent", 0, 0},
		{"", 0, 0},
	} {
		if begin, end, ok := programPages(test.line); begin != test.begin || end != test.end || ok != (test.end > 0) {
			t.Errorf("%q: %x to %x, %v", test.line, begin, end, ok)
		}
	}
}

// TestStartPagesAreDropped: after that the program goes on, with less of itself in memory.
func TestStartPagesAreDropped(t *testing.T) {
	var folder unix.Statfs_t
	if program, err := os.Executable(); err != nil {
		t.Fatal(err)
	} else if err := unix.Statfs(program, &folder); err != nil {
		t.Fatal(err)
	} else if folder.Type == unix.TMPFS_MAGIC {
		t.Skipf("%s is in memory only: its pages cannot be read again", program)
	}
	before := residentFilePages(t)
	if err := dropStartPages(); err != nil {
		t.Skipf("this kernel cannot drop pages on request: %v", err)
	}
	if after := residentFilePages(t); after >= before {
		t.Errorf("%d kB of files in memory, %d kB before", after, before)
	}
}

// residentFilePages is how much of the files that the process maps is in memory, in kB.
func residentFilePages(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "RssFile:" {
			kilobytes, err := strconv.Atoi(fields[1])
			if err != nil {
				t.Fatal(err)
			}
			return kilobytes
		}
	}
	t.Fatal("the kernel does not say how much of the program is in memory")
	return 0
}
