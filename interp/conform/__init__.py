"""The conformance tester: cases, an independent oracle, verdicts, and reports made from one JSON file.

`result` defines that file and `backend` the interface of a subject; both import nothing else of this package.
"""
