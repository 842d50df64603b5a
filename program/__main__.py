"""`python -m program`."""

from program.cli import main

main()
