"""The edge towards Kubernetes: kopf's handlers and the admission server, which only translate and delegate."""
