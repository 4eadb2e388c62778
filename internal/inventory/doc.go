// Package inventory shows housekeeping what the workers know and what is running.
//
// A pass must not act on an old list, because that shows pods as they were before their workers
// acted (spec/cleanup.md 3.5). But most passes find everything as the previous pass left it, and on
// an idle node a list per pass would cost more calls than all other parts together. So a list is
// kept while a new one can make no difference: since it was read, the sources, the workers and the
// relists have added, changed and removed no pod, and the pass that read it had nothing to do. The
// list then equals what the last relist showed, and the first relist that shows anything else
// invalidates it.
package inventory
