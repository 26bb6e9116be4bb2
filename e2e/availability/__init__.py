"""Reviews under load while something happens to the webhook's replicas, on the chart installed on a real node.

`load` asks the webhook, by itself and through the API server; `faults` does things to it. Used by the test in
e2e/scenarios/node and by benchmarks/availability.py, whose figures are in docs/availability.md.
"""
