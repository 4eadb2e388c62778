package machine

import (
	"fmt"
	"strings"
)

// script writes a path as a scenario file that replays it.
func (p *pair) script(path []move) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# found by exploring the %s pair\n", p.name)
	c := p.config
	fmt.Fprintf(&b, "> config hold views=%v observe=%v\n> run\n", c.Views, c.Observe)
	for _, mv := range path {
		b.WriteString("> " + p.line(mv) + "\n")
	}
	return b.String()
}

// line returns a move as a scenario command.
func (p *pair) line(mv move) string {
	uid := p.uids[mv.pod]
	other := p.uids[1-mv.pod]
	attrs := ""
	if p.alive[0].Name == "web" {
		attrs = " static=web"
	}
	switch mv.verb {
	case vCreate:
		return fmt.Sprintf("create %s%s", uid, attrs)
	case vRestart:
		return fmt.Sprintf("restart %s%s", uid, attrs)
	case vUpdate:
		return fmt.Sprintf("update %s%s mirror=%s-mirror", uid, attrs, uid)
	case vDelete:
		return fmt.Sprintf("update %s%s delete=5", uid, attrs)
	case vTerminal:
		return fmt.Sprintf("sync %s%s phase=Failed stopped", uid, attrs)
	case vKill:
		return fmt.Sprintf("kill %s%s done=%s1", uid, attrs, uid)
	case vKillShort:
		return fmt.Sprintf("kill %s%s grace=2", uid, attrs)
	case vEvict:
		return fmt.Sprintf("kill %s%s evict status=Evicted done=%s1", uid, attrs, uid)
	case vRuntimeKill:
		return fmt.Sprintf("runtime-kill %s%s done=%s1", uid, attrs, uid)
	case vObserveOther:
		return fmt.Sprintf("observe %s other=%s", uid, other)
	case vObserveRemembered:
		return fmt.Sprintf("observe %s other=%s spec=30 grace=2", uid, other)
	default:
		format := map[verb]string{
			vTake: "take %s", vObserveNothing: "observe %s", vObserveRunning: "observe %s running",
			vObserveUnknown: "observe %s unknown", vObserveFailed: "observe %s failed", vStale: "stale %s", vViewReady: "view %s", vOK: "ok %s acted",
			vTerminalOK: "ok %s terminal", vError: "fail %s terminal", vPanic: "panic %s", vCanceled: "canceled %s",
			vViewError: "view-error %s", vElapse: "elapse %s",
			vForget: "forget %s", vHold: "hold %s", vRelease: "release %s",
		}[mv.verb]
		if format != "" {
			return fmt.Sprintf(format, uid)
		}
		return map[verb]string{
			vKnown0: "known", vKnownA: "known a", vKnownB: "known b", vKnownAB: "known a b",
			vStopDetach: "stop detach", vStopTerminate: "stop terminate", vStopNow: "stop now",
		}[mv.verb]
	}
}
