"""Row programs: chains of groups and reductions over the same rows, as data, and the pass that finds them."""
