"""MLIR text, bytecode or an artifact to a `Program`, which is plain immutable data."""
