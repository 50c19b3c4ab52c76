"""Finds the packages: the folders `interp` and `ops` are `minihlo.interp` and `minihlo.ops`. See pyproject.toml."""

from setuptools import find_packages, setup

found = [f"minihlo.{name}" for name in find_packages(include=["interp", "interp.*", "ops", "ops.*"])]
# Folders without Python: what `minihlo conform` runs of the ops that have no other cases, and its profiles.
setup(packages=[*found, "minihlo.mlir_tests", "minihlo.profiles"])
