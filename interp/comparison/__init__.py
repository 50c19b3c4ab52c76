"""The old name of `interp.judging`, for imports that have not followed yet."""
