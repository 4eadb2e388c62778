package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// play is one session.
type play struct {
	t     *testing.T
	home  string
	agent *exec.Cmd
}

// begin runs a line; its output goes to a file, which may be read meanwhile.
func (p *play) begin(line, output string) *exec.Cmd {
	cmd := exec.Command("bash", "-c", "exec >"+output+" 2>&1; "+line)
	cmd.Dir, cmd.Env = p.home, append(os.Environ(), "XDG_STATE_HOME="+p.home+"/state", "PATH="+p.home+"/bin:"+os.Getenv("PATH"), "LC_ALL=C")
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	return cmd
}

// end stops the agent, and the pods if the session did not come to that.
func (p *play) end() {
	if p.agent == nil {
		return
	}
	_ = p.begin("nodeagent drain --yes", "end").Wait()
	_ = p.agent.Process.Kill()
	_ = p.agent.Wait()
}

// session returns which step does not print what was recorded.
func (p *play) session(steps [][]string) error {
	once := regexp.MustCompile(`^rm|nodeagent (evict|restart|drain) `)
	for i, step := range steps {
		line, want, output := step[1], masked(step[2]), fmt.Sprint("out", i)
		compare := func() error {
			got, err := os.ReadFile(filepath.Join(p.home, output))
			if text := masked(string(got)); err == nil && text != want {
				err = fmt.Errorf("%s prints\n%s\nand the page has\n%s", line, text, want)
			}
			return err
		}
		var err error
		switch {
		case strings.HasSuffix(line, "&"):
			p.agent = p.begin("exec "+strings.TrimSuffix(line, "&"), output)
		case strings.HasSuffix(line, "-w"):
			watch := p.begin("exec "+line, output)
			err = repeated(compare)
			_ = watch.Process.Kill()
			_ = watch.Wait()
		case once.MatchString(line):
			_ = p.begin(line, output).Wait() // what it prints says how it ended
			err = compare()
		default: // it only asks: until the node is as far as it was
			err = repeated(func() error { _ = p.begin(line, output).Wait(); return compare() })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// repeated checks until there is no error, for a minute.
func repeated(check func() error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for late := time.Now().Add(time.Minute); ; <-tick.C {
		err := check()
		if err == nil || time.Now().After(late) {
			return err
		}
	}
}
