"""Texts of compiled steps, by hand."""
import re


def with_parameters(text):
    """A module's text with the instructions that the headers of its computations imply: from `%f (a: f32[8]{0}) -> ...`
    follows that `%a` is parameter 0."""
    def declared(header):
        parameters = re.findall(r'([\w.]+): (.+?)(?=, [\w.]+: |\) ->)', header[0])
        lines = [f'  %{name} = {shape} parameter({number})' for number, (name, shape) in enumerate(parameters)]
        return '\n'.join([header[0], *lines])
    return re.sub(r'^(ENTRY )?%.+ \{$', declared, text, flags=re.MULTILINE)
