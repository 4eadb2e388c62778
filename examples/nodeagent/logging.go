package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// newLogger logs to w as the command line asks.
func newLogger(w io.Writer, o options) *slog.Logger {
	if o.logFormat == "text" && isJournal(w, os.Getenv("JOURNAL_STREAM")) {
		return slog.New(newJournalHandler(w, o.logLevel))
	}
	handlerOptions := &slog.HandlerOptions{Level: o.logLevel}
	if o.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, handlerOptions))
	}
	return slog.New(slog.NewTextHandler(w, handlerOptions))
}

// recorder writes the events of pods to the log, and remembers them.
type recorder struct {
	log  *slog.Logger
	kept *eventLog
}

// Eventf logs one event; a warning is logged as a warning.
func (r recorder) Eventf(object apiruntime.Object, eventtype, reason, messageFmt string, args ...any) {
	level := slog.LevelInfo
	if eventtype == v1.EventTypeWarning {
		level = slog.LevelWarn
	}
	kind, name, field := describe(object)
	attrs := []any{"reason", reason, kind, name}
	if field != "" {
		attrs = append(attrs, "object", field)
	}
	text := fmt.Sprintf(messageFmt, args...)
	r.kept.add(event{Time: time.Now(), Type: eventtype, Reason: reason, Kind: kind, Name: name, Part: field, Message: text, uid: podUID(object)})
	if hint := hintOf(reason, text); hint != "" {
		attrs = append(attrs, "hint", hint)
	}
	r.log.Log(context.Background(), level, text, attrs...)
}

// podUID returns the UID of the pod that an event is about, "" for an event about the node.
func podUID(object apiruntime.Object) types.UID {
	switch o := object.(type) {
	case *v1.Pod:
		return o.UID
	case *v1.ObjectReference:
		if o.Kind == "Pod" {
			return o.UID
		}
	}
	return ""
}

// hintOf names the flag behind an event that a new user may not expect: the node has too few
// resources left, or too many pods.
func hintOf(reason, text string) string {
	switch {
	case reason == "EvictionThresholdMet", reason == "NodeHasDiskPressure", reason == "NodeHasInsufficientMemory",
		reason == "Evicted" && strings.HasPrefix(text, "The node "):
		return `the node has less left than --eviction-hard or --eviction-soft says; --eviction-hard "" turns this off`
	case reason == "OutOfpods":
		return "--max-pods says how many there may be"
	}
	return ""
}

// describe names the object of an event: a pod, a part of one, or the node.
func describe(object apiruntime.Object) (kind, name, field string) {
	switch o := object.(type) {
	case *v1.Pod:
		return "pod", o.Namespace + "/" + o.Name, ""
	case *v1.ObjectReference:
		if o.Kind == "Node" {
			return "node", o.Name, o.FieldPath
		}
		return "pod", o.Namespace + "/" + o.Name, o.FieldPath
	}
	return "pod", "", ""
}
