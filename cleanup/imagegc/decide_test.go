package imagegc

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

const gib = 1 << 30

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// at is so many minutes after the epoch.
func at(minutes float64) time.Time { return epoch.Add(time.Duration(minutes * float64(time.Minute))) }

// choices describes a plan: "-key" for what goes, "?key" for a spare, "key" for
// what stays.
func choices(p Plan) string {
	var out []string
	for _, c := range p.Choices {
		switch {
		case c.Remove:
			out = append(out, "-"+c.Image.Key)
		case c.Spare:
			out = append(out, "?"+c.Image.Key)
		default:
			out = append(out, c.Image.Key)
		}
	}
	return strings.Join(out, " ")
}

// unused is an image of 1 GiB, seen since the epoch and last used at a minute.
func unused(key string, lastUsed float64) Image {
	i := Image{Key: key, Size: gib, FirstSeen: at(0)}
	if lastUsed > 0 {
		i.LastUsed = at(lastUsed)
	}
	return i
}

// disk of 100 GiB with so many available.
func disk(available float64) *Disk {
	return &Disk{Capacity: 100 * gib, Available: uint64(available * gib)}
}

func TestDecide(t *testing.T) {
	policy, err := Policy{}.complete()
	if err != nil {
		t.Fatal(err)
	}
	aged := policy
	aged.MaxAge = 10 * time.Minute
	off := policy
	off.HighPercent = 100
	pinned, used, young := unused("pinned", 0), unused("used", 1), unused("young", 0)
	pinned.Pinned, used.UsedBy, young.FirstSeen = true, "container x", at(59)
	for _, tc := range []struct {
		name   string
		in     input
		want   string
		toFree uint64
	}{
		{"edge 26, IG5: 84.9 % is not full", input{Policy: policy, Disk: disk(15.1), Images: []Image{unused("a", 1)}}, "a", 0},
		{"edge 26, IG5: 85.0 % is; it frees down to 80 %", input{Policy: policy, Disk: disk(15), Images: []Image{
			unused("e", 5), unused("a", 1), unused("b", 2), unused("f", 6), unused("c", 3), unused("d", 4), unused("never", 0),
		}}, "-never -a -b -c -d ?e ?f", 5 * gib},
		{"IG3: then by first seen, then by key", input{Policy: policy, Disk: disk(18), Images: []Image{
			{Key: "late", FirstSeen: at(2)}, {Key: "b", FirstSeen: at(1)}, {Key: "a", FirstSeen: at(1)},
		}}, "a b late", 0},
		{"IG5: not more than is there", input{Policy: policy, Disk: disk(1000), Images: []Image{unused("a", 1)}}, "a", 0},
		{"edge 29: capacity 0", input{Policy: policy, Disk: &Disk{}, Images: []Image{unused("a", 1)}}, "a", 0},
		{"usage unknown", input{Policy: policy, Images: []Image{unused("a", 1)}}, "a", 0},
		{"IG1: off at 100 %", input{Policy: off, Disk: disk(0), Images: []Image{unused("a", 1)}}, "a", 0},
		{"ND5, IG3, edge 27: pinned, used and young stay", input{Policy: policy, Disk: disk(0), Images: []Image{pinned, used, young, unused("a", 1)}}, "-a pinned used young", 20 * gib},
		{"IG8: pressure takes all but those", input{Policy: policy, Pressure: true, Disk: disk(90), Images: []Image{pinned, used, young, unused("a", 1), unused("b", 2)}}, "-a -b pinned used young", 0},
		{"IG4: old ones go, young in use stay", input{Policy: aged, Disk: disk(90), Images: []Image{unused("a", 49), unused("b", 51), used}}, "-a used b", 0},
		{"IG4, edge 27: a never used one is as old as it is known", input{Policy: aged, Disk: disk(90), Images: []Image{
			{Key: "new", FirstSeen: at(55)}, {Key: "old", FirstSeen: at(1)},
		}}, "-old new", 0},
		{"IG4: not before the agent is that old", input{Policy: aged, Started: at(51), Disk: disk(90), Images: []Image{unused("a", 1)}}, "a", 0},
		{"IG4 then IG5: what age frees counts", input{Policy: aged, Disk: disk(15), Images: []Image{
			unused("a", 1), unused("b", 2), unused("c", 3), unused("d", 4), unused("e", 5), unused("f", 55),
		}}, "-a -b -c -d -e ?f", 5 * gib},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.in.Now = at(60)
			if tc.in.Started.IsZero() {
				tc.in.Started = at(0)
			}
			p := decide(tc.in)
			if got := choices(p); got != tc.want || p.ToFree != tc.toFree {
				t.Errorf("%s, to free %d; want %s, %d", got, p.ToFree, tc.want, tc.toFree)
			}
			for _, c := range p.Choices {
				if c.Remove != c.Kept.IsZero() || c.Remove && c.Reason == "" {
					t.Errorf("%s has no reason", c.Image.Key)
				}
			}
			shuffled := tc.in
			shuffled.Images = append([]Image{}, tc.in.Images...)
			rand.New(rand.NewPCG(1, 2)).Shuffle(len(shuffled.Images), func(i, j int) {
				shuffled.Images[i], shuffled.Images[j] = shuffled.Images[j], shuffled.Images[i]
			})
			if again := decide(shuffled); !reflect.DeepEqual(again, p) { // ID3
				t.Errorf("another order gives another plan: %s", choices(again))
			}
		})
	}
}

func TestPolicy(t *testing.T) {
	got, err := Policy{}.complete()
	if want := (Policy{HighPercent: 85, LowPercent: 80, MinAge: 2 * time.Minute}); err != nil || got != want { // IG1
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := (Policy{HighPercent: 50, MinAge: -1}).complete(); err != nil || got.LowPercent != 50 || got.MinAge != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, p := range []Policy{{HighPercent: 101}, {HighPercent: -1}, {LowPercent: 90}, {LowPercent: -1}, {MaxAge: -1}} {
		if _, err := p.complete(); err == nil {
			t.Errorf("%+v was accepted", p)
		}
	}
}
