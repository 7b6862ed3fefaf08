"""The reference of the Python package, by ./dev docs: what its docstrings say."""

import os
import re

project = "holdfast"
version = release = os.environ.get("HOLDFAST_VERSION", "")
author = "the authors of Holdfast"
extensions = ["sphinx.ext.autodoc"]
autodoc_default_options = {"members": True, "undoc-members": False}
# Signatures come with the docstrings of compiled functions.
autodoc_docstring_signature = True
autodoc_typehints = "none"
html_theme = "alabaster"
html_theme_options = {"description": "Lazy arrays and kernels whose memory is never lost in flight"}
html_show_sourcelink = False


def setup(app):
    """Two directives that list what the module has, so that nothing can be forgotten."""
    from docutils.parsers.rst import Directive
    from docutils.statemachine import StringList

    class Listing(Directive):
        required_arguments = 1
        kind = ""

        def wanted(self, value):
            raise NotImplementedError

        def run(self):
            import importlib

            from docutils import nodes

            name = self.arguments[0]
            module = importlib.import_module(name)
            lines = StringList()
            for member, value in sorted(vars(module).items()):
                if not member.startswith("_") and self.wanted(value):
                    lines.append(f".. {self.kind}:: {name}.{member}", "conf.py")
                    lines.append("", "conf.py")
            node = nodes.container()
            self.state.nested_parse(lines, self.content_offset, node)
            return node.children

    class Functions(Listing):
        kind = "autofunction"

        def wanted(self, value):
            described = ("kernel", "warm_up")  # on the page already
            return (
                callable(value)
                and not isinstance(value, type)
                and bool(value.__doc__)
                and value.__name__ not in described
            )

    class Errors(Listing):
        kind = "autoexception"

        def wanted(self, value):
            return isinstance(value, type) and issubclass(value, Exception)

    def quote_signatures(app, what, name, obj, options, lines):
        # Of what has another name here than in its own docstring.
        for i, line in enumerate(lines):
            if re.match(r"^\w+\(.*\)( -> .*)?$", line):
                lines[i] = f"``{line}``"

    app.connect("autodoc-process-docstring", quote_signatures)
    app.add_directive("include-functions", Functions)
    app.add_directive("include-errors", Errors)
