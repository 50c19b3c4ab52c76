"""The commands of the command line, one module each. `cli.py` parses the arguments and imports the one it needs."""
