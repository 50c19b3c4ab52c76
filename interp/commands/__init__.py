"""The commands of the command line, one module each; `cli.py` reads the arguments and imports only the one it needs."""
