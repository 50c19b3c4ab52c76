"""Sums of products, linear algebra and Fourier transforms."""
