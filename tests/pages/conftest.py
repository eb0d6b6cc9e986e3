"""What tests of pages share: a browser of each width and colour scheme, and the built site."""

import pytest
from support.chromium import Chromium

from pages.built import build_site

# One of each width and of each scheme is in the default tier.
WINDOWS = [
    pytest.param((1400, False), id="1400-light"),
    pytest.param((400, True), id="400-dark"),
    pytest.param((1400, True), id="1400-dark", marks=pytest.mark.slow),
    pytest.param((400, False), id="400-light", marks=pytest.mark.slow),
]


@pytest.fixture(scope="module", params=WINDOWS)
def tab(request, chromium_path, tmp_path_factory):
    width, dark = request.param
    opened = Chromium(chromium_path, tmp_path_factory.mktemp("profile"), dark=dark)
    opened.ask("Emulation.setDeviceMetricsOverride", width=width, height=1000, deviceScaleFactor=1, mobile=False)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def built_site(tmp_path_factory):
    """The folder of the site, which one worker builds and tests: support/grouping.py."""
    return build_site(tmp_path_factory.mktemp("site") / "site")
