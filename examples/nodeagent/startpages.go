package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// dropStartPages makes the kernel drop the pages of the program and its libraries that have not changed since they
// were read from their files. Those still in use come back at once, one by one; most of a program is needed only
// to start it. Nothing can be lost: a page that has changed stays.
func dropStartPages() error {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return err
	}
	defer maps.Close()
	var failed []error
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		begin, end, ok := programPages(lines.Text())
		if !ok {
			continue
		}
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, begin, end-begin, unix.MADV_PAGEOUT); errno != 0 {
			failed = append(failed, errno)
		}
	}
	return errors.Join(failed...)
}

// programPages reads one line of /proc/PID/maps: the address range of pages that come from a file and cannot be
// written.
func programPages(line string) (begin, end uintptr, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 6 || !strings.HasPrefix(fields[5], "/") || fields[1] != "r--p" && fields[1] != "r-xp" {
		return 0, 0, false
	}
	if n, err := fmt.Sscanf(fields[0], "%x-%x", &begin, &end); n != 2 || err != nil {
		return 0, 0, false
	}
	return begin, end, begin < end
}
