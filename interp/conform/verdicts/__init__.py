"""What the results of a backend are: verdicts, what is open, and which fault explains a failure."""
