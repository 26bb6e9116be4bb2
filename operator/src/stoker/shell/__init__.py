"""Reads a shell script without running it: which commands it would start, with which words, and what is not known."""
