"""Groups in the making: the elementwise operations that are deferred, and what becomes of them."""
