"""`stoker doctor` on a real control plane and a real Prometheus."""
