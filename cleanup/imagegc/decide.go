package imagegc

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/podwright/podwright/internal/rule"
)

// Disk is the usage, in bytes, of the file system that holds the images.
type Disk struct {
	Capacity, Available uint64
}

// full reports whether at least this percentage is used. It is exact: in whole percents, as the
// kubelet counts, 84.1 % would be 85 % (IG5, edge case 26).
func (d Disk) full(percent int) bool {
	return float64(d.Capacity-d.available())*100 >= float64(d.Capacity)*float64(percent)
}

// available is never more than the capacity.
func (d Disk) available() uint64 { return min(d.Available, d.Capacity) }

// Image is what is known of one image.
type Image struct {
	// Key is the image's ID, followed by a comma and the runtime handler if the runtime keeps
	// images per handler (IG2).
	Key string
	// Names are its tags and digests.
	Names []string
	// Size in bytes.
	Size uint64
	// Pinned images are never removed.
	Pinned bool
	// FirstSeen is when this process first saw the image, LastUsed when it last found the image in
	// use; zero if never.
	FirstSeen, LastUsed time.Time
	// UsedBy says what uses the image now, empty if nothing does.
	UsedBy string
}

// idleSince returns when the image was last useful. An image that was never used counts from when
// it was first seen (IG4).
func (i Image) idleSince() time.Time {
	if i.LastUsed.After(i.FirstSeen) {
		return i.LastUsed
	}
	return i.FirstSeen
}

// input is everything a plan is made from.
type input struct {
	Policy Policy
	Images []Image
	// Disk is the usage now; nil if it is not known, so that only age counts.
	Disk *Disk
	// Pressure removes everything that may be removed, however empty the disk is (IG8).
	Pressure bool
	// Started is when this process began to look at images.
	Started time.Time
	Now     time.Time
}

// cause is why an image is removed, in the words of the metric (IG10).
type cause string

// Causes.
const (
	causeAge   cause = "age"
	causeSpace cause = "space"
)

// Choice says what becomes of one image.
type Choice struct {
	Image Image `json:"image"`
	// Remove: the image is removed, for Cause. An image that stays may still be a Spare: it is
	// removed if others cannot be.
	Remove bool  `json:"remove"`
	Spare  bool  `json:"spare,omitempty"`
	Cause  cause `json:"cause,omitempty"`
	// Reason says why it is removed; Kept is the rule that keeps it. Only a spare has both.
	Reason string      `json:"reason,omitempty"`
	Kept   rule.Denial `json:"kept,omitzero"`
}

// Plan says what becomes of every image, in the order of removal: those removed for their age,
// those removed for space with their spares, those that stay.
type Plan struct {
	Choices []Choice `json:"choices"`
	// ToFree is how many bytes have to be freed for space; 0 if enough is free.
	ToFree uint64 `json:"toFree"`
}

// decide makes a plan. It is pure, and the order of the images does not matter. The policy must be
// complete, as made by [New].
func decide(in input) Plan {
	plan := Plan{ToFree: toFree(in)}
	images := slices.Clone(in.Images)
	slices.SortFunc(images, func(a, b Image) int { // IG3
		return cmp.Or(a.LastUsed.Compare(b.LastUsed), a.FirstSeen.Compare(b.FirstSeen), cmp.Compare(a.Key, b.Key))
	})
	var stay, space []Choice
	freed := uint64(0)
	for _, i := range images {
		if why := protected(i); why != "" {
			stay = append(stay, Choice{Image: i, Kept: rule.ImageInUse.Because(why)})
			continue
		}
		if old(in, i) {
			plan.Choices = append(plan.Choices, Choice{
				Image: i, Remove: true, Cause: causeAge, Reason: fmt.Sprintf("not used for %s", in.Now.Sub(i.idleSince()).Round(time.Second)),
			})
			freed += i.Size
			continue
		}
		space = append(space, Choice{Image: i})
	}
	for _, c := range space {
		young := in.Now.Sub(c.Image.FirstSeen) < in.Policy.MinAge
		switch {
		case young:
			c.Kept = rule.TooYoung.Because(fmt.Sprintf("first seen less than %s ago", in.Policy.MinAge))
			stay = append(stay, c)
			continue
		case in.Pressure:
			c.Remove, c.Cause, c.Reason = true, causeSpace, "the disk is under pressure"
		case plan.ToFree == 0:
			c.Kept = rule.EnoughRoom.Because("unused; the disk is not full")
			stay = append(stay, c)
			continue
		case freed >= plan.ToFree:
			c.Spare, c.Cause, c.Reason = true, causeSpace, "unused, and others could not be removed"
			c.Kept = rule.EnoughRoom.Because("unused; enough is freed without it")
		default:
			c.Remove, c.Cause, c.Reason = true, causeSpace, "unused, and the disk is full"
			freed += c.Image.Size
		}
		plan.Choices = append(plan.Choices, c)
	}
	plan.Choices = append(plan.Choices, stay...)
	return plan
}

// protected returns why an image must stay in any case (ND5).
func protected(i Image) string {
	switch {
	case i.Pinned:
		return "pinned"
	case i.UsedBy != "":
		return "in use: " + i.UsedBy
	}
	return ""
}

// old reports whether an image is removed for its age (IG4).
func old(in input, i Image) bool {
	return in.Policy.MaxAge > 0 && in.Now.Sub(in.Started) > in.Policy.MaxAge && in.Now.Sub(i.idleSince()) > in.Policy.MaxAge
}

// toFree returns how many bytes bring the disk down to the low mark; 0 if usage is below the high
// mark (IG5).
func toFree(in input) uint64 {
	if in.Disk == nil || in.Disk.Capacity == 0 || in.Policy.HighPercent == 100 || !in.Disk.full(in.Policy.HighPercent) {
		return 0
	}
	want := in.Disk.Capacity / 100 * uint64(100-in.Policy.LowPercent)
	if want <= in.Disk.available() {
		return 0
	}
	return want - in.Disk.available()
}
