"""The conformance tester: cases, an oracle of its own, verdicts, and the reports that are made from one JSON.

`result` is what all reports read and `backend` what a subject is; both import nothing of the rest.
"""
