package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/podwright/podwright"
)

// service reports the agent's state to systemd (sd_notify(3)); without systemd it does nothing.
type service struct {
	socket   string
	watchdog time.Duration // how often systemd expects a sign of life; 0 means never
}

// openService removes systemd's variables from the environment, which pods' programs would inherit.
func openService() service {
	s := service{socket: os.Getenv("NOTIFY_SOCKET")}
	usec, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if pid := os.Getenv("WATCHDOG_PID"); err == nil && usec > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		s.watchdog = time.Duration(usec) * time.Microsecond / 2
	}
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		_ = os.Unsetenv(name) // fails only for invalid names
	}
	return s
}

// tell sends a state. It never blocks for long, and drops what cannot be sent.
func (s service) tell(state ...string) {
	if s.socket == "" {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.socket, Net: "unixgram"})
	if err != nil {
		return
	}
	defer conn.Close()
	if conn.SetWriteDeadline(time.Now().Add(time.Second)) == nil {
		_, _ = conn.Write([]byte(strings.Join(state, "\n")))
	}
}

// statusPeriod is how often systemd is told how the agent is, unless the watchdog asks for more.
const statusPeriod = 10 * time.Second

// tellService tells systemd that the agent is ready, and then how it is, until ctx ends. The
// watchdog is not fed while the agent's own loop is stuck; an unavailable container runtime is no
// reason to restart the agent.
func (a *agent) tellService(ctx context.Context) {
	if a.service.socket == "" {
		return
	}
	a.service.tell("READY=1")
	tick := time.NewTicker(min(cmp.Or(a.service.watchdog, statusPeriod), statusPeriod))
	defer tick.Stop()
	for {
		problems := a.engine.Problems()
		state := []string{"STATUS=" + serviceStatus(len(a.engine.Pods()), problems)}
		if stuck := stuckLoop(problems); stuck == "" {
			state = append(state, "WATCHDOG=1")
		} else {
			a.log.Error("The agent is stuck; systemd will start it again, if its unit has a watchdog", "why", stuck)
		}
		a.service.tell(state...)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func serviceStatus(pods int, problems []podwright.Problem) string {
	text := fmt.Sprintf("%d pods", pods)
	if len(problems) > 0 {
		text += fmt.Sprintf("; %d problems, the oldest: %s", len(problems), printable(problems[0].String()))
	}
	return text
}

// stuckLoop says what the agent itself is stuck at, "" if it is not stuck.
func stuckLoop(problems []podwright.Problem) string {
	for _, p := range problems {
		if p.Kind == "loop" && p.Severity == "unhealthy" {
			return p.String()
		}
	}
	return ""
}
