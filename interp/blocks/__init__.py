"""Blocks that share a scale, and elements without unused bits between them, for Python."""
