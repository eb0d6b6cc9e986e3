"""The recorded graph of towers as one page that opens from disk, with no network."""

from parity.report.towers.page import HazardPage as HazardPage
from parity.report.towers.page import graph_as_html as graph_as_html
from parity.report.towers.page import write_graph_html as write_graph_html
