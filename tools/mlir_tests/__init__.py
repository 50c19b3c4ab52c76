"""Makes `mlir_tests/interpret_<op>.mlir`: for each op that takes floats, what it gives in each format, to the bit."""
