"""Plants small realistic faults in a copy of the checkout and tells which of them no test notices.

Run as `python -m scripts.mutate` or `make mutate`.  areas.py and simulator_areas.py say which tests answer for which
files; operators.py holds the faults of each language, edits.py what they share.  A fault that leaves machine code or
bytecode as it was is equivalent and does not count.
"""
