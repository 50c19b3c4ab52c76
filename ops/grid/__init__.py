"""The former place of `ops/processes/exchange.py` and `parallel.py`."""
