package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
)

// newLogger logs to w as the command line asks.
func newLogger(w io.Writer, o options) *slog.Logger {
	handlerOptions := &slog.HandlerOptions{Level: o.logLevel}
	if o.logJSON {
		return slog.New(slog.NewJSONHandler(w, handlerOptions))
	}
	return slog.New(slog.NewTextHandler(w, handlerOptions))
}

// recorder writes the events of pods to the log.
type recorder struct{ log *slog.Logger }

// Eventf logs one event; warnings as warnings.
func (r recorder) Eventf(object apiruntime.Object, eventtype, reason, messageFmt string, args ...any) {
	level := slog.LevelInfo
	if eventtype == v1.EventTypeWarning {
		level = slog.LevelWarn
	}
	pod, field := describe(object)
	attrs := []any{"reason", reason, "pod", pod}
	if field != "" {
		attrs = append(attrs, "object", field)
	}
	r.log.Log(context.Background(), level, fmt.Sprintf(messageFmt, args...), attrs...)
}

// describe names the object of an event.
func describe(object apiruntime.Object) (name, field string) {
	switch o := object.(type) {
	case *v1.Pod:
		return o.Namespace + "/" + o.Name, ""
	case *v1.ObjectReference:
		return o.Namespace + "/" + o.Name, o.FieldPath
	}
	return "", ""
}
