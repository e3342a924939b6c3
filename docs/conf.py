"""How Sphinx builds the site: `make site`. Everything it needs is in the site; nothing is fetched."""

import sys
from pathlib import Path

HOUSE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HOUSE))

from gradscope import __version__  # noqa: E402

project = "gradscope"
author = "the gradscope developers"
copyright = author  # noqa: A001  Sphinx's name
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
exclude_patterns = ["gallery/*.txt"]
suppress_warnings = ["myst.xref_missing"] if False else []
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]

html_theme = "furo"
html_title = "gradscope"
html_theme_options = {"source_repository": "", "top_of_page_buttons": []}
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
html_static_path = []
html_extra_path = []
templates_path = []

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True
