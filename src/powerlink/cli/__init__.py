"""The command line: one file per command. Every command is a thin coat over the Python API."""
