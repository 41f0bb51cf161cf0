"""The lspipe version, and nothing else: importing the package must cost nothing."""

__version__ = "0.1.0"
