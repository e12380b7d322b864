"""The harness's output: escaped text, reports, the JSON record, the protocol, and where a run took place."""
