"""`python -m raypd`."""

from raypd.cli import main

main()
