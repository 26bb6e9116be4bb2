"""How a script is walked. Private to `stoker.shell`."""
