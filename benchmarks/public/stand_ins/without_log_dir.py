"""Makes `xrange` known, and takes absl's own flag `log_dir` away, which a script defines itself."""

import builtins

from absl import flags, logging

builtins.xrange = range
delattr(flags.FLAGS, "log_dir")
assert logging
