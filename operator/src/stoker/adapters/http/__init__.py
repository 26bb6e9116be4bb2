"""HTTP servers: bounded listeners, health, metrics, and certificates renewed under a running server."""
