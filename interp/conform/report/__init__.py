"""Reports for people and for machines: terminal, HTML, JUnit."""
