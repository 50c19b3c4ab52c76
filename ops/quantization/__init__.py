"""Quantized types: the numbers that integers stand for, and every op on them."""
