"""A `Program` to a plan: ops are inlined, fused and bound, and become Python functions."""
