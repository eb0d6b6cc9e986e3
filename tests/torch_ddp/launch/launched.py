"""A script as users write it: it leaves one note per rank, however it was started."""

import argparse

from rank_functions import leave_a_note

from torch_ddp import add_launch_options, launch

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    add_launch_options(parser)
    options = parser.parse_args()
    launch(leave_a_note, options, options.folder)
