import scripts  # noqa: F401  (answers --help where numpy or torch is missing)
