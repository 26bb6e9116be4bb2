"""The kinds of workload that rules see: a record for each (`kind`, `registry`), and the readers that make submissions
of DLJobs, Pods, Jobs and PyTorchJobs.
"""
