"""The ways to run operations: each gives the kernel of a `Job`; `EXECUTORS` lists them by name.

A group computes some values of one shape from its leaves: tensors whose dimensions lie along some of the shape's. What
it does to single elements is in one function, `Job.compute`, which takes arrays that broadcast together. The ways to
run it call that function on other arrays than the leaves themselves, so they give the same bits.
"""
