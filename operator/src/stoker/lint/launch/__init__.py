"""What a script launches: programs, launchers, processes, nodes and devices."""
