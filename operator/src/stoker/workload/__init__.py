"""A DLJob's Job and Service, and its phase and conditions from what became of them; pure."""
