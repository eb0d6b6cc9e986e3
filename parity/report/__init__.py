"""Shows results to people and to machines."""

from parity.report.machine import as_json as as_json
from parity.report.machine import columns as columns
from parity.report.machine import write_json as write_json
from parity.report.terminal import print_facts as print_facts
from parity.report.terminal import print_mapping as print_mapping
from parity.report.terminal import print_result as print_result
