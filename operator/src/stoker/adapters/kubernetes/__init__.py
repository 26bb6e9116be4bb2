"""The API server: the client, events, logs of pods, and the connections on which kopf watches."""
