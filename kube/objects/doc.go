// Package objects reads from an API server what pods refer to: config maps, secrets, services
// and runtime classes.
//
//	pods ── Follow, Forget ──► Store ── one reflector per object ──► API server
//	Engine ── GetConfigMap ──►   │  ◄── object, change ─────────────
//	       ── GetSecret ─────►   │
//	       ◄── changed ──────────┘
//	Engine ── Services ──────► Services ─────── one reflector ─────► API server
//	       ── RuntimeClass ──► RuntimeClasses ─ one reflector ─────► API server
//
// A [Store] watches only objects that some pod refers to, each with one watch however many pods
// there are, as the node authorizer of a cluster asks for. It is given to an engine as
// Config.Pods.Objects: the engine calls its Run, and is told each object that changes, so that
// the files of running pods follow within about a second. [Services] and [RuntimeClasses] list
// everything of their kind; their program runs them beside the engine.
//
// # When the API server is away
//
// What was read stays as it was, and pods go on with it. An object that was never read is not
// known: pods that need it wait, and their reason says what the API server said. Only its
// statement that there is no such object counts as one, and only then is an optional reference
// skipped.
//
// With a cache (package offline) what was read outlives the agent and the machine: it is given to pods until the
// API server has answered about it.
//
// # Secrets
//
// The content of secrets is in memory, and in a cache if there is one, while a pod refers to them. It appears in no log
// and no error.
//
// Rules are those of docs/spec/kube.md, KO.
package objects
