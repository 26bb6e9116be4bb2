"""The whole life of clusters in simulated time, with everything going wrong, driven by the controller's own code."""
