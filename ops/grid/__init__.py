"""A grid of processes, as threads: what they bring to each other and wait for."""
