"""JAX functions on this interpreter: traced by JAX, evaluated here, whatever platform JAX runs on.

`function.jit` is what users call. It binds the one primitive of `primitive`, whose parameter is a `Computation`: what
JAX traced, and the programs that have been made of it. Importing `function` imports JAX.
"""
