"""A report as one HTML page that a browser shows without a network: the Markdown's text and tables, the figures inside.
"""
import base64
import html
import pathlib
import re

import markdown

STYLE = """
:root { color-scheme: light; }
body { margin: 0 auto; max-width: 70rem; padding: 1.5rem 1rem 4rem; color: #1b1f24; background: #fff;
       font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; }
h2 { font-size: 1.3rem; margin-top: 2.2rem; border-bottom: 1px solid #d5dae0; padding-bottom: .25rem; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { border-bottom: 1px solid #d5dae0; padding: .3rem .6rem; text-align: left; vertical-align: top; }
th { border-bottom-width: 2px; vertical-align: bottom; }
td:first-child { min-width: min(15rem, 35vw); }
tr:hover td { background: #f5f7f9; }
img { display: block; max-width: 100%; height: auto; margin: 1rem auto; }
code { background: #f1f3f5; border-radius: 3px; padding: .1em .3em; font-size: .9em; overflow-wrap: anywhere; }
"""


def write(report: pathlib.Path) -> pathlib.Path:
    """Write REPORT.html beside a Markdown report that begins with its title and has its figures in its directory;
    returns its path. A wide table scrolls by itself, so that the page fits a narrow window."""
    text = report.read_text(encoding='utf-8')
    body = markdown.markdown(text, extensions=['tables'], output_format='html')
    body = body.replace('<table>', '<div class="scroll"><table>').replace('</table>', '</table></div>')

    def embedded(match):
        figure = (report.parent / html.unescape(match[1])).read_bytes()
        return f'src="data:image/png;base64,{base64.b64encode(figure).decode()}"'
    body = re.sub(r'src="([^"]+\.png)"', embedded, body)
    title = text.partition('\n')[0].removeprefix('# ')
    path = report.with_suffix('.html')
    path.write_text(
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n<body>\n{body}\n</body>\n</html>\n',
        encoding='utf-8')
    return path
