"""The chart's pods and DLJobs' programs really run: on the provider `node`."""
