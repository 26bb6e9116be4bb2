"""End-to-end tests: a real control plane, simulated GPU nodes and their telemetry, and the claims tried on them."""
