"""Runs programs that are sent to it, one JSON line each, in one process: importing a framework takes seconds."""

import contextlib
import io
import json
import sys
import traceback

for line in sys.stdin:
    program = json.loads(line)
    printed, error = io.StringIO(), ""
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(program["text"], program["place"], "exec"), {"__name__": "__main__"})
        except BaseException:
            error = traceback.format_exc()
    print(json.dumps({"printed": printed.getvalue(), "error": error}), flush=True)
