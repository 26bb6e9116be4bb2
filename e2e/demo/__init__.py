"""The demo: the main job on a real control plane, each step with the real command and its real output."""
