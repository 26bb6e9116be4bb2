"""`stoker replay` over recorded histories in a real Prometheus."""
