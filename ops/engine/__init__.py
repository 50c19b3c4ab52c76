"""How arrays are computed quickly: lookup tables, blocks of cache size, threads, and compiled loops."""
