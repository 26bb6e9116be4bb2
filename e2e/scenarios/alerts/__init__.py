"""The chart's alerts, as promtool evaluates them."""
