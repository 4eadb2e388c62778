// Package agenttest holds tests of a whole node agent, [github.com/podwright/podwright/kube.Agent] and the
// engine, on an API server in memory and the fake runtime, in virtual time. The package itself has no code.
//
//	operator ──► memoryapi ◄── way (kills the agent at a call) ◄── kube.Agent, Engine ──► fake runtime
//	                 │                                                    │                    │
//	                 └── History ──► tale of the undisturbed life == tale of this life ◄── looks, starts, files
package agenttest
