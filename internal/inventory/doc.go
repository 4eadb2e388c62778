// Package inventory shows housekeeping what the workers know and what runs.
//
// A pass must not act on an old list, because that shows pods as they were before their
// workers acted (spec/cleanup.md 3.5). But most passes find everything as the pass before
// left it, and on an idle node a list for each would cost more calls than all other
// parts together. So a list is kept while a new one can make no difference: since it was
// read, the sources, the workers and the relists added, changed and removed no pod, and
// with it there was nothing to do. It then shows what the last relist showed, and the
// first relist that shows anything else ends it.
package inventory
