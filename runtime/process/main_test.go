//go:build linux

package process

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// The test binary is an embedding program: it is its own supervisor, and, as
// told by the environment, the agent of a test that kills agents, or a program without a
// main thread.
func TestMain(m *testing.M) {
	if os.Getenv(gateEnv) != "" {
		awaitGate()
	}
	supervisor, done := Shim()
	if done {
		return
	}
	if os.Getenv(leaderlessEnv) != "" {
		runLeaderless()
	}
	if os.Getenv(agentEnv) != "" {
		os.Exit(runAgent(supervisor))
	}
	goleak.VerifyTestMain(m)
}
