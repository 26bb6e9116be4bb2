"""What stops and starts each kind of workload, with the real controller of that kind (docs/counterparts.md)."""
