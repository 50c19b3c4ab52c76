"""The options of the commands, a file for each family. Nothing here imports more than argparse and tables of names."""
