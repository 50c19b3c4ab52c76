"""Finds how a backend sums products, by designed dots: a record that `--accumulate` takes."""
