package containerlog

import (
	"github.com/fsnotify/fsnotify"
)

// watch signals changes in a folder; stop ends it. Without inotify, or with too many
// watches, the channel is silent, and looking every lookPeriod must do.
func watch(path string) (changes <-chan struct{}, stop func()) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, func() {}
	}
	if err := watcher.Add(path); err != nil {
		_ = watcher.Close()
		return nil, func() {}
	}
	told := make(chan struct{}, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		errs := watcher.Errors
		for {
			select {
			case _, ok := <-watcher.Events:
				if !ok {
					return
				}
			case _, ok := <-errs:
				if !ok {
					errs = nil
					continue
				}
			}
			select {
			case told <- struct{}{}:
			default:
			}
		}
	}()
	return told, func() {
		_ = watcher.Close()
		<-ended
	}
}
