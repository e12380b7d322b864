"""Plants small realistic faults in a copy of the checkout and lists those that no test notices.

`make mutate` or `python -m scripts.mutate`. areas.py maps sources to tests, operators.py and edits.py make the faults,
driver.py plants them. A fault that leaves the machine code or bytecode as it was is equivalent and does not count.
"""
