"""Deep-learning jobs as physics: steps that use GPUs, links, CPUs, disks and networks over time, with what is wrong in
them known. Tests, benchmarks and end-to-end scenarios play the same jobs.
"""
