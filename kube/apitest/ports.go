package apitest

import (
	"fmt"
	"net"
	"os"
	"strconv"
)

// ephemeralFile holds the first and the last port that the kernel gives to whoever asks for any,
// connections too.
const ephemeralFile = "/proc/sys/net/ipv4/ip_local_port_range"

// firstPort is the lowest port that is chosen here; well-known servers are below it.
const firstPort = 10_240

// freePorts returns different ports that are free now. None is one that the kernel gives away by
// itself: a server binds its port later than it is chosen here, and again when it is restarted, and
// would find such a one taken by somebody's connection. Where no others are known, they are the kernel's.
func freePorts(address string, n int) (ports []string, err error) {
	end := ephemeralStart()
	for range n {
		listener, err := listenBelow(address, end)
		if err != nil {
			return nil, err
		}
		defer func() { _ = listener.Close() }() // closed at the end, so that the ports differ
		ports = append(ports, strconv.Itoa(port(listener)))
	}
	return ports, nil
}

// ephemeralStart is the first port that the kernel gives away, 0 if that is not known.
func ephemeralStart() int {
	content, err := os.ReadFile(ephemeralFile)
	if err != nil {
		return 0
	}
	var first, last int
	if _, err := fmt.Sscan(string(content), &first, &last); err != nil {
		return 0
	}
	return first
}

// listenBelow listens on a port from firstPort to below end. The kernel's choice of any port says
// where to begin, so that processes that choose at the same time begin at different ones.
func listenBelow(address string, end int) (net.Listener, error) {
	kernels, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil || end <= firstPort {
		return kernels, err
	}
	size := end - firstPort
	begin := port(kernels)
	for i := range size {
		p := firstPort + (begin+i)%size
		if listener, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(p))); err == nil {
			return listener, kernels.Close()
		}
	}
	return kernels, nil
}

func port(listener net.Listener) int { return listener.Addr().(*net.TCPAddr).Port }
