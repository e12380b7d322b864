from scripts.common import help as _help

_help.prepare()
