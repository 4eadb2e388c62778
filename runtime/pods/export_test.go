package pods

// HangNodeFiles makes hang be called before each call about files of the node, with the call's name.
func (m *Manager) HangNodeFiles(hang func(name string)) { m.files.hang = hang }
