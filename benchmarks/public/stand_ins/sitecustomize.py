"""Makes a script of Python 2 find `xrange`."""

import builtins

builtins.xrange = range
