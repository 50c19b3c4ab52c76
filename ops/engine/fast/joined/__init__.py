"""Groups that have run for a while get code of their own: one loop for all ops."""
