"""How launchers read their command lines: a module per family, and the table of their names."""
