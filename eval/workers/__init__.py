"""The process that a submission runs in, from both sides: what starts it, what it is asked, and what it may answer."""
