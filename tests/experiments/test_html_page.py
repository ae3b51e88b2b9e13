"""A report as one HTML page."""
import base64
import re

from experiments.lib import html_page

PNG = b'\x89PNG\r\n\x1a\n and so on'
REPORT = """# Small & honest

| task | accuracy |
|---|---|
| RACE | 57.0 (53.9-60.1) |

![Figure 2](figure.png)
![gone](missing.png)

```
python -m experiments.quickstart
```
"""


def test_a_report_becomes_one_page_with_its_figures_inside(tmp_path):
    (tmp_path / 'report.md').write_text(REPORT)
    (tmp_path / 'figure.png').write_bytes(PNG)
    path = html_page.write(tmp_path / 'report.md')
    text = path.read_text()
    assert path.name == 'report.html' and '<title>Small &amp; honest</title>' in text
    figure, gone = re.findall(r'<img alt="([^"]*)" src="([^"]*)"', text)
    assert figure[0] == 'Figure 2' and base64.b64decode(figure[1].removeprefix('data:image/png;base64,')) == PNG
    assert gone == ('gone', 'missing.png')
    assert text.count('<table>') == 1 and text.count('<td>') == 2 and '<td>57.0 (53.9-60.1)</td>' in text
    assert re.search(r'<pre><code>python -m experiments.quickstart\s*</code></pre>', text)
    assert not re.search('<(link|script)', text)  # nothing that a network would have to bring
    for tag in ('body', 'table', 'div', 'p', 'pre'):
        assert len(re.findall(rf'<{tag}[ >]', text)) == text.count(f'</{tag}>'), tag
