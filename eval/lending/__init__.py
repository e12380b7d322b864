"""Memory that the parent owns and lends to a worker: inputs arrive with the word to begin, outputs are copied."""
