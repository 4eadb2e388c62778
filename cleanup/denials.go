package cleanup

import "github.com/podwright/podwright/internal/rule"

// Denials shared by the plan and by the guards that are asked right before an action.

func sourcesUnseen() Denial { return rule.SourcesUnseen.Because("not all sources have been seen") }

func podDesired() Denial { return rule.InUse.Because("the pod is desired") }

func passTooLong() Denial { return rule.TryLater.Because("the pass has taken long enough") }

func withheld() Denial {
	return rule.SetupHeld.Because("the pod is kept by the component that hands pods to the workers")
}

func setupHeld(why error) Denial {
	return rule.SetupHeld.Because("setup is held back: " + why.Error())
}

func staticTerminating() Denial {
	return rule.StillStopping.Because("the static pod is being terminated")
}

// maybeWanted protects a pod that may be one of those that an undecided source has not named.
func maybeWanted(undecided error) Denial {
	return rule.InUse.Because("the pod may be wanted by a source that cannot name it yet: " + undecided.Error())
}
