"""Workloads that Stoker did not create, as their controllers make them, and their GPUWorkloads."""
