package tokens

// Len is how many tokens the source keeps.
func (s *Source) Len() int {
	s.tokens.mu.Lock()
	defer s.tokens.mu.Unlock()
	return len(s.tokens.entries)
}
