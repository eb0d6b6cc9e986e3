"""A script as users write it: it leaves one note per rank, however it was started, or fails in one of them."""

import argparse

from rank_functions import fail_on, leave_a_note

from torch_ddp import add_launch_options, launch

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--fail", type=int)
    add_launch_options(parser)
    options = parser.parse_args()
    if options.fail is None:
        launch(leave_a_note, options, options.folder)
    else:
        launch(fail_on, options, options.fail, "raise", options.folder)
