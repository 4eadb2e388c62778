// Package sourcetest is the conformance kit for sources of pods: it checks that a
// [syncloop.Source] keeps the promises that the loop relies on. The sources of this module
// run it. Write a [Factory] to run it on yours:
//
//	func TestConformance(t *testing.T) {
//		sourcetest.Run(t, func(t *testing.T) sourcetest.Subject {
//			db := openTestDatabase(t)
//			return sourcetest.Subject{
//				Source: NewDatabaseSource(db),
//				Set:    func(ctx context.Context, pods ...*v1.Pod) error { return db.Replace(ctx, pods) },
//			}
//		})
//	}
//
// What a case does:
//
//	case ──Set, Break──► origin ──► Source.Run ──deliver──► a loop of the kit
//	  ▲                                                        │
//	  └──────────── what was delivered, by UID ◄───────────────┘
//
// A case is named after the rule of docs/spec/syncloop.md that it checks (SRC1, M2, ...), so a
// failure says where to read on. Cases are independent; each has a subject of its own. A case that
// needs something the subject lacks is skipped. Code that ignores its context fails its case, which
// shows the stacks, and the kit goes on.
//
// No case requires speed. Cases wait for deliveries and measure all time on [Subject.Clock], so
// they run in a testing/synctest bubble too: see [Cases].
//
// The kit does not test what makes a pod valid, and does not run pods.
package sourcetest
