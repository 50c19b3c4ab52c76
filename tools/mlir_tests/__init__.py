"""Makes `mlir_tests/interpret_<op>.mlir`: for each op that takes floats, its results in each format, to the bit."""
