#!/usr/bin/env bash
# Keeps ports proven, anywhere: run it in the folder that holds cases/. It ends with 0 where every port is the same.
set -uo pipefail
parity run cases/* --golden golden -j 2 --junit parity.xml --json parity.json --markdown parity.md --html parity.html
code=$?
case $code in
  0) echo "proven" ;;
  1) echo "a port differs: parity.md says where and why, and the page of its case shows every tensor" ;;
  2) echo "something could not be compared, which proves nothing: see parity.md" ;;
  *) exit $code ;;
esac
python -m pytest --junit-xml=tests.xml || exit 1
exit $code
