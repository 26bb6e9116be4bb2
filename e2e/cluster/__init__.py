"""Scratch Kubernetes clusters: the programs they are made of, the processes, and one interface over the providers."""
