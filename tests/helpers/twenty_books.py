"""A corpus of twenty files of two lines."""
LINES = [f'The cat number {i} sat on the mat.\nSo said dog {i}.' for i in range(20)]


def write_books(directory):
    """Write 00.txt to 19.txt; returns the directory."""
    directory.mkdir()
    for i, text in enumerate(LINES):
        (directory / f'{i:02d}.txt').write_text(text)
    return directory
