"""Turns of loops on small vectors: each as data, as text for LLVM, and as code that makes many of them."""
