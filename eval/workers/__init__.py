"""The worker process that runs a submission: how it starts, what the harness asks, and what it may answer."""
