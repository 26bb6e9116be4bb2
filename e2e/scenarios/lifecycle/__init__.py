"""A DLJob's life on a real control plane: created, waiting, running, suspended, ended; and what policies make of it."""
