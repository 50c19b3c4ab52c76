"""Static pages of many reports: who computes what how. `build.build` writes them, `read.reports` reads a folder."""
