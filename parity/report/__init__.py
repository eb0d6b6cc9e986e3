"""Shows results to people and to machines."""

from parity.report.failure import nothing_compared as nothing_compared
from parity.report.failure import print_failure as print_failure
from parity.report.failure import write_failure as write_failure
from parity.report.failure import write_junit_of_failure as write_junit_of_failure
from parity.report.html.page import as_html as as_html
from parity.report.html.page import write_html as write_html
from parity.report.json_file import as_json as as_json
from parity.report.json_file import columns as columns
from parity.report.json_file import write_json as write_json
from parity.report.junit import write_junit as write_junit
from parity.report.markdown import as_markdown as as_markdown
from parity.report.markdown import write_markdown as write_markdown
from parity.report.power import power_as_json as power_as_json
from parity.report.power import show_power as show_power
from parity.report.tensorboard import write_tensorboard as write_tensorboard
from parity.report.terminal import print_result as print_result
from parity.report.terminal import print_verdict as print_verdict
from parity.report.terminal import report as report
from parity.report.view import show_mapping as show_mapping
