"""What `stoker explain` is made of: where a job stands by the cluster's objects, and how that is printed."""
