"""How a backend sums products, found by designed dots: a record that `--accumulate` takes."""
