"""People are told of a real job's way, by a real server, once."""
