"""Generated source: its lines, and expressions of single integers in them."""
