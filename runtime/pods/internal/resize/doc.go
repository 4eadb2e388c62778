// Package resize decides about resources that change while a pod runs
// (spec/runtime.md 21), as functions over values:
//
//	desired ──Admit, Sort──► allocated ──Decide──► in place: Steps ──► actuated
//	 (spec)                 (persisted)     └────► restart            (persisted)
//
// It makes no call, keeps no state and reads no clock; runtime/pods carries the
// decisions out.
package resize
