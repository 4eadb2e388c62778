package machine

import (
	"encoding/json"
	"strings"
	"testing"
)

// A state has methods for what it means, and is read back as it was written.
func TestUnitStatesSayWhatTheyMean(t *testing.T) {
	for state, want := range map[State]string{
		Unknown: "", Queued: "", InSetup: "", QueuedTermination: "terminating", TerminationRequested: "terminating",
		InTermination: "terminating", RuntimeOnly: "terminating", HasTerminated: "terminated", Finished: "terminated finished",
	} {
		var said []string
		for word, is := range map[string]bool{"terminating": state.Terminating(), "terminated": state.Terminated()} {
			if is {
				said = append(said, word)
			}
		}
		if state.Finished() {
			said = append(said, "finished")
		}
		if got := strings.Join(said, " "); got != want {
			t.Errorf("%s is %q, want %q", state, got, want)
		}
		text, err := json.Marshal(state)
		if err != nil || string(text) != `"`+state.String()+`"` {
			t.Errorf("%s is written as %s, %v", state, text, err)
		}
		read := Unknown
		if err := json.Unmarshal(text, &read); err != nil || read != state {
			t.Errorf("%s is read as %s, %v", text, read, err)
		}
	}
	var state State
	if err := json.Unmarshal([]byte(`"asleep"`), &state); err == nil {
		t.Error("an unknown word is read as", state)
	}
}

// Every value has a word of its own, and so does a value out of range.
func TestUnitEveryValueHasItsWord(t *testing.T) {
	for name, words := range map[string][]string{
		"update type":  {TypeSync.String(), TypeUpdate.String(), TypeCreate.String(), TypeKill.String(), UpdateType(TypeKill + 1).String()},
		"outcome":      {OutcomeQueued.String(), OutcomeMerged.String(), OutcomeRestartRemembered.String(), OutcomeIgnoredFinished.String(), OutcomeIgnoredInvalid.String(), OutcomeIgnoredStale.String(), OutcomeStopped.String(), Outcome(OutcomeStopped + 1).String()},
		"kill outcome": {KillDone.String(), KillAlreadyTerminated.String(), KillNeverStarted.String(), KillNotRequested.String(), KillTimeout.String(), KillStopped.String(), KillOutcome(KillStopped + 1).String()},
		"cause":        {CauseNone.Error(), CauseTerminating.Error(), CauseGraceShrunk.Error(), CauseOrphaned.Error(), CauseStopping.Error(), CauseDeadline.Error()},
		"cause label":  {CauseNone.Label(), CauseTerminating.Label(), CauseGraceShrunk.Label(), CauseOrphaned.Label(), CauseStopping.Label(), CauseDeadline.Label()},
	} {
		seen := map[string]bool{}
		for _, word := range words {
			if word == "" || seen[word] {
				t.Errorf("%s: %q in %q", name, word, words)
			}
			seen[word] = true
		}
	}
	for outcome, want := range map[Outcome]bool{
		0: false, OutcomeQueued: true, OutcomeMerged: true, OutcomeRestartRemembered: true,
		OutcomeIgnoredFinished: false, OutcomeIgnoredInvalid: false, OutcomeIgnoredStale: false, OutcomeStopped: false,
	} {
		if outcome.Accepted() != want {
			t.Errorf("%s: accepted %v", outcome, outcome.Accepted())
		}
	}
}
