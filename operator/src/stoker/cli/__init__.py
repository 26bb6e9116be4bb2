"""The command line: each command parses its arguments, calls the core and prints what it answers."""
