"""The oracle of the comparisons: formats, rounding and every elementwise operation, computed independently of `ops`.

Nothing here imports from `ops`, so a wrong fact or a wrong rounding there cannot hide itself.
"""
