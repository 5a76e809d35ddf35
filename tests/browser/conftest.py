"""Where playwright is not installed, the tests of this tier are not collected: the other tiers do without."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("playwright") else ["test_report_page.py"]
