"""What the harness says: cleaned text, the JSON record, where an output is wrong, and what it all ran on."""
