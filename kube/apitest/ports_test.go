package apitest

import (
	"net"
	"strconv"
	"testing"
)

// TestFreePorts: the ports of servers differ, are free, and are none that the kernel gives to
// connections: an API server that is started again finds its own free.
func TestFreePorts(t *testing.T) {
	ports, err := freePorts("127.0.0.1", 50)
	if err != nil {
		t.Fatal(err)
	}
	if len(ports) != 50 {
		t.Fatalf("got %d ports, want 50", len(ports))
	}
	end := ephemeralStart()
	if end <= firstPort {
		t.Logf("the kernel gives away ports from %d on, so all are the kernel's", end)
	}
	seen := map[string]bool{}
	for _, p := range ports {
		if seen[p] {
			t.Errorf("port %s twice", p)
		}
		seen[p] = true
		if n, err := strconv.Atoi(p); err != nil || n < firstPort || end > firstPort && n >= end {
			t.Errorf("port %q, want one from %d to below %d (%v)", p, firstPort, end, err)
		}
	}
}

// TestListenBelowWithoutRoom: where the kernel's range begins low, or is not known, its own choice
// is taken.
func TestListenBelowWithoutRoom(t *testing.T) {
	for _, end := range []int{0, firstPort, firstPort + 1} {
		// The only port below the last end is taken.
		if end > firstPort {
			taken, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort)))
			if err == nil {
				defer func() { _ = taken.Close() }()
			}
		}
		listener, err := listenBelow("127.0.0.1", end)
		if err != nil {
			t.Fatalf("below %d: %v", end, err)
		}
		if p := port(listener); p == firstPort {
			t.Errorf("below %d: port %d is taken", end, p)
		}
		_ = listener.Close()
	}
}
