"""`stoker diagnose` on a real API server and a real Prometheus with hours of history."""
