"""The demo, as a scenario."""
