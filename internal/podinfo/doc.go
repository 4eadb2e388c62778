// Package podinfo answers the questions that every part of the engine asks about a v1.Pod: where it
// comes from, whether it has ended, how important it is, what it requests, how long it may take to
// stop, and how events about it are recorded. Each answer is a function of the object alone. The package knows no state of the
// engine.
//
//	source       Static, Mirror, FullName, the annotations     pod.go
//	names        CheckName                                     pathname.go
//	importance   Critical, NodeCritical                        priority.go
//	resources    ContainerRequest, ContainerLimit,
//	             Requests, Request, Limit, SameAmounts         resources.go
//	QoS class    QoS                                           qos.go
//	stopping     Grace, StopWait                               grace.go
//	requests     RequestURL, RequestHeaders, Port              request.go
//	events       EventRecorder, DiscardEvents,
//	             NodeReference, EventText, Message, Cut        events.go
//
// Container restart rules are in package restartpolicy.
package podinfo
