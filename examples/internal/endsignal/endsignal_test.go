package endsignal

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

// delayEnv makes the test binary a program that ends once its input does; it is for how long the
// first signal and others are the same request.
const delayEnv = "ENDSIGNAL_TEST_DELAY"

func TestMain(m *testing.M) {
	if delay, err := time.ParseDuration(os.Getenv(delayEnv)); err == nil {
		ctx, stop := contextWithin(delay)
		defer stop()
		fmt.Println("ready")
		<-ctx.Done()
		fmt.Println("ending")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	goleak.VerifyTestMain(m)
}

// TestSignalsWithinASecondAreOneRequest: however many they are; later ones count one by one.
func TestSignalsWithinASecondAreOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals, out := make(chan os.Signal), make(chan os.Signal, 10)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go relay(ctx, signals, out)
		<-time.After(time.Hour)
		var got []int
		for i, wait := range []time.Duration{0, 0, time.Millisecond, same - 2*time.Millisecond, time.Millisecond, 0} {
			<-time.After(wait)
			signals <- syscall.SIGTERM
			synctest.Wait()
			if len(out) > 0 {
				<-out
				got = append(got, i)
			}
		}
		if want := []int{0, 4, 5}; !slices.Equal(got, want) {
			t.Errorf("passed on: %v, want %v", got, want)
		}
	})
}

// TestRelayBlocksNoSignal: requests that the program does not receive are dropped.
func TestRelayBlocksNoSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go relay(ctx, signals, make(chan os.Signal))
		for range 100 {
			<-time.After(same)
			signals <- syscall.SIGTERM
		}
	})
}

func TestNotifyRelaysSignals(t *testing.T) {
	requests, stop := Notify()
	defer stop()
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if s := <-requests; s != syscall.SIGTERM {
		t.Errorf("%v", s)
	}
}

// TestContextSparesTheProcess: the signals of one request do not kill the program; the next request does.
func TestContextSparesTheProcess(t *testing.T) {
	for delay, code := range map[time.Duration]int{time.Hour: 0, 0: -1} {
		t.Run(delay.String(), func(t *testing.T) {
			program := exec.Command(os.Args[0])
			program.Env = append(os.Environ(), delayEnv+"="+delay.String())
			in, err := program.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := program.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := program.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			lines.Scan()
			_ = program.Process.Signal(syscall.SIGTERM)
			if lines.Scan(); lines.Text() != "ending" {
				t.Errorf("said %q", lines.Text())
			}
			if delay > 0 {
				_ = program.Process.Signal(syscall.SIGINT)
				_ = in.Close()
			} else {
				go func() {
					for program.Process.Signal(syscall.SIGINT) == nil { // until it has died of one
					}
				}()
			}
			_ = program.Wait() // the exit code says it
			if got := program.ProcessState.ExitCode(); got != code {
				t.Errorf("exit code %d, want %d: %v", got, code, program.ProcessState)
			}
		})
	}
}
