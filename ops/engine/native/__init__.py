"""Code that LLVM makes of text, in this process only: where numba is installed, LLVM is."""
