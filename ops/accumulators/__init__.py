"""How sums of products are formed: records of facts, one routine that computes any of them, and the units of chips."""
