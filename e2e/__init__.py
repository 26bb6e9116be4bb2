"""End-to-end tests: a real control plane, simulated GPU nodes, their telemetry, and what is claimed of Stoker on them."""
