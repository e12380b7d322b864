"""Memory that the parent owns and lends to a worker: inputs that come with the word to begin, outputs it takes back."""
