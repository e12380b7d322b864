from simulator.python import help as _help

_help.prepare()
