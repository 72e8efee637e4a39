"""Sphinx configuration."""

project = "cgsa"
author = "the cgsa authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "cgsa"
autosummary_generate = False
autodoc_typehints = "description"
autodoc_member_order = "bysource"
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
# Pages refer to each other by paths in the repository, so that the same links lead somewhere there and on the site.
root_doc = "docs/index"
include_patterns = [
    "docs/*.md",
    "benchmarks/*.md",
    "CHANGELOG.md",
    "examples/README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
]
