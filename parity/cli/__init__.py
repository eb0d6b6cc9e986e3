"""The command line."""

from parity.cli.main import main as main
