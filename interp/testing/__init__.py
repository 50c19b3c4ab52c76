"""Programs with check ops: runs them on a backend, and describes checks that fail."""
