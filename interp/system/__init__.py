"""What the operating system gives: memory, processes, streams."""
