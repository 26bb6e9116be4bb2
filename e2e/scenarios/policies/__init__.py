"""What policies say of themselves and make of jobs, on a real API server with the whole operator."""
