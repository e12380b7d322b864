"""Modules that scripts of several folders share: the library's tile table, the toolchain, the simulator, Markdown."""
