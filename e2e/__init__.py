"""End-to-end tests: a real control plane, simulated GPU nodes and their telemetry, and what is claimed of Stoker on it."""
