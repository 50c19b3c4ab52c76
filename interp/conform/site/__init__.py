"""Static pages of many reports: backends compared. `build.build` writes them, `read.reports` reads a folder."""
