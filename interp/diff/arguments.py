"""The old place of `fit_arguments`."""

from .compare import fit_arguments as fit_arguments
