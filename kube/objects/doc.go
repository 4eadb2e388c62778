// Package objects reads the objects that pods refer to from an API server: config maps, secrets,
// services and runtime classes.
//
//	pods ── Follow, Forget ──► Store ── one reflector per object ──► API server
//	Engine ── GetConfigMap ──►   │  ◄── object, change ─────────────
//	       ── GetSecret ─────►   │
//	       ◄── changed ──────────┘
//	Engine ── Services ──────► Services ─────── one reflector ─────► API server
//	       ── RuntimeClass ──► RuntimeClasses ─ one reflector ─────► API server
//
// A [Store] watches only objects that some pod refers to, with one watch per object however many
// pods there are, as a cluster's node authorizer requires. An engine gets it as
// Config.Pods.Objects: the engine calls its Run, and is told of each object that changes, so the
// files of running pods follow within about a second. [Services] and [RuntimeClasses] list
// everything of their kind; the program runs them beside the engine.
//
// # When the API server is unavailable
//
// What was read stays as it was, and pods keep using it. An object that was never read is unknown:
// pods that need it wait, and their reason quotes the API server's error. An object counts as
// missing only if the API server says that it does not exist, and only then is an optional
// reference skipped.
//
// With a cache (package offline), what was read outlives the agent and the machine: pods get it
// until the API server has answered about the object.
//
// # Secrets
//
// The content of secrets is in memory, and in the cache if there is one, only while a pod refers to
// them. It appears in no log and no error.
//
// The rules are KO in docs/spec/kube.md.
package objects
