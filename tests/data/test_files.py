"""The reader of CSV and TSV files: no cell is shifted, no row is dropped, and errors name lines."""

import csv
import io
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suwr.data import files
from suwr.data.files import DelimitedFile, find_files
from suwr.exceptions import TableError


def read(path, content, columns=None, **options):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with DelimitedFile(path, **options) as file:
        return file.read_frame(columns)


@pytest.mark.parametrize(
    ("text", "fields", "line"),
    [
        ("a,b,c\n1,2,3,4\n5,6,7\n", 4, 2),
        ("a,b,c\n5,6,7\n1,2,3,4\n", 4, 3),
        ("a,b,c\n1,2,3,\n4,5,6,\n", 4, 2),
        ("a,b,c\n1,2,3\n4,5\n", 2, 3),
        ("a,b,c\n1,2,3\n4,5", 2, 3),
        ("a,b,c\n1,2,3\n4\n", 1, 3),
        ("a,b,c,\n1,2,3,\n4,5,6\n", 3, 3),
        ('a,b,c\n"1\n\n2",2,3\n4,5\n', 2, 5),
        ('a,b,c\r\n"1\r\n",2,3\r\n4,5\r\n', 2, 4),
        ("a,b,c\r1,2,3\r4,5\r", 2, 3),
        ("\n\n\na,b,c\n\n\n4,5\n", 2, 7),
        ('"a\nx",b,c\n1,2,3\n4,5\n', 2, 4),
        ('a,b,c\n5" pipe,2,3\n5" pipe,4,5,6" pipe\n', 4, 3),
        ('a,b,c\n1,"2,3"\n', 2, 2),
        ("\ufeffa,b,c\n1,2\n", 2, 2),
    ],
)
@pytest.mark.parametrize("infer_types", [False, True])
@pytest.mark.parametrize("columns", [None, ["b"]])
def test_rows_with_more_or_fewer_fields(tmp_path, text, fields, line, infer_types, columns):
    header = next(csv.reader(io.StringIO(text.removeprefix("\ufeff").lstrip(), newline="")))
    with pytest.raises(TableError, match=f"Got {fields} in line {line} instead") as caught:
        read(tmp_path / "a.csv", text, columns, infer_types=infer_types)
    assert f"a.csv' must have {len(header)} fields in every row" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("a,b\n1,2\n", [["1", "2"]]),
        ("a,b\n1,2", [["1", "2"]]),
        ("\ufeffa,b\r\n1,2\r\n", [["1", "2"]]),
        ('\ufeff"a","b"\r1,2\r', [["1", "2"]]),
        ("\n \na,b\n\n1,2\n  \n3,4\n\n\n", [["1", "2"], ["3", "4"]]),
        ("a,b\r\r\n1,2\r\r\n3,4\r\r\n", [["1", "2"], ["3", "4"]]),
        ("a,b\n,\n", [["", ""]]),
        ('a,b\n"x, ""y""\r\nz",2\n', [['x, "y"\r\nz', "2"]]),
        ('a,b\n"a"b,c"d"e\n', [["ab", 'c"d"e']]),
        ('a,b\n5" pipe,6" pipe\n"x,y",7"\n', [['5" pipe', '6" pipe'], ["x,y", '7"']]),
        ('a,b\n"""",""\n', [['"', ""]]),
        (" a,b \n 1,2 \n", [[" 1", "2 "]]),
        ("a,b\n", []),
        ("a,b", []),
        ("a\n1\n\n2\n \n\n", [["1"], [""], ["2"], [" "], [""]]),
        ('a\n""\n1', [[""], ["1"]]),
    ],
)
def test_cells(tmp_path, text, rows):
    frame = read(tmp_path / "a.csv", text)
    assert frame.to_numpy().tolist() == rows
    assert [name.strip() for name in frame.columns] == ["a", "b"][: frame.shape[1]]


def test_an_empty_row_of_a_single_column_is_missing(tmp_path):
    frame = read(tmp_path / "a.csv", "a\n1\n\n2\n", infer_types=True)
    np.testing.assert_array_equal(frame["a"], [1, np.nan, 2])


@pytest.mark.parametrize("text", ['a,b\n1,"2\n3,4\n', 'a,b\n1,2\n3,"', 'a,b\n1,"2""\n'])
def test_a_quote_that_is_not_closed(tmp_path, text):
    line = 3 if "\n3" in text and text.endswith('"') else 2
    with pytest.raises(TableError, match=f"row that begins in line {line} does not end"):
        read(tmp_path / "a.csv", text)


def test_a_quote_that_is_not_closed_does_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_MAX_ROW", 1000)
    text = 'a,b\n1,2\n3,"4\n' + "5,6\n" * files._BLOCK
    with pytest.raises(TableError, match="row that begins in line 3 does not end"):
        read(tmp_path / "a.csv", text)


def test_long_cells(tmp_path):
    """The limit of the module csv is 131,072 characters."""
    cell = "a, \n" * 300_000
    frame = read(tmp_path / "a.csv", f'a,b\n1,"{cell}"\n2,x\n')
    assert frame["b"].tolist() == [cell, "x"]


@pytest.mark.parametrize("text", ["", "\n\n", " ", "\ufeff"])
def test_files_without_a_header(tmp_path, text):
    with pytest.raises(TableError, match="has no header"):
        read(tmp_path / "a.csv", text)


@pytest.mark.parametrize("text", ["a,a\n1,2\n", "a,b,a\n", ",b,\n1,2,3\n", "Unnamed: 1,\n1,2\n"])
def test_two_columns_with_one_name(tmp_path, text):
    with pytest.raises(TableError, match="has two columns named"):
        read(tmp_path / "a.csv", text)


def test_columns_without_a_name(tmp_path):
    assert read(tmp_path / "a.csv", ",b\n1,2\n").columns.tolist() == ["Unnamed: 0", "b"]


@pytest.mark.parametrize("sep", ["", "::", '"', "\n", "→"])
def test_separators_that_are_not_possible(tmp_path, sep):
    with pytest.raises(ValueError, match="must be one ASCII character"):
        read(tmp_path / "a.csv", "a\n", sep=sep)


@pytest.mark.parametrize("encoding", [None, "utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"])
@pytest.mark.parametrize("sep", [None, ";", "\t", "|", " "])
def test_encodings_and_separators(tmp_path, encoding, sep):
    frame = pd.DataFrame({"größe": ["ä, b", "c;d|e f\tg", "\u00ff"], "n": ["1,5", "-2,25", ""]})
    path = tmp_path / "a.csv"
    frame.to_csv(path, index=False, sep=sep or ",", encoding=encoding)
    with DelimitedFile(path, sep, encoding) as file:
        assert file.names == ["größe", "n"]
        pd.testing.assert_frame_equal(file.read_frame(), frame, check_dtype=False)
    with DelimitedFile(path, sep, encoding, infer_types=True, decimal=",") as file:
        np.testing.assert_array_equal(file.read_frame(["n"])["n"], [1.5, -2.25, np.nan])


def test_bytes_that_are_not_text(tmp_path):
    content = b"a,b\n\xff\xc3,2\n"
    assert read(tmp_path / "a.csv", content)["b"].tolist() == ["2"]
    with pytest.raises(TableError, match="the byte 0xff is not valid UTF-8"):
        read(tmp_path / "a.csv", content, infer_types=True)


def test_batches(tmp_path):
    path = tmp_path / "a.tsv"
    frame = pd.DataFrame({"a": [f" {n}" for n in range(1000)], "b": ["x\ty\n"] * 1000})
    frame.to_csv(path, index=False, sep="\t")
    with DelimitedFile(path) as file:
        found = list(file.batches(300))
    assert [len(batch) for batch in found] == [300, 300, 300, 100]
    pd.testing.assert_frame_equal(pd.concat(found), frame, check_dtype=False)


def rows_of(text):
    """Return the rows, or the text of the error."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        path.write_bytes(text.encode())
        with DelimitedFile(path) as file:
            try:
                return file.read_frame().to_numpy().tolist()
            except TableError as error:
                return str(error)


CELL = st.text('a ,"\n\ré', max_size=4)
QUOTED = CELL.map(lambda cell: '"' + cell.replace('"', '""') + '"')
LINES = st.lists(
    st.lists(CELL | QUOTED, min_size=1, max_size=3).map(",".join), min_size=1, max_size=6
)


@settings(deadline=None, max_examples=300)
@given(st.text('a",\n\r b', max_size=25) | LINES.map("\n".join) | LINES.map("\r\n".join))
def test_rows_are_those_of_the_module_csv(text):
    rows, line = [], 1
    reader, lines = csv.reader(io.StringIO(text, newline="")), list(io.StringIO(text, newline=""))
    for row in reader:
        blank = not "".join(lines[line - 1 : reader.line_num]).strip()
        rows.append((row or [""], line, blank))
        line = reader.line_num + 1
    first = next((n for n, (_, _, blank) in enumerate(rows) if not blank), len(rows))
    header = rows[first][0] if first < len(rows) else []
    expected = [
        (row, line) for row, line, blank in rows[first + 1 :] if not blank or len(header) == 1
    ]
    wrong = [(row, line) for row, line in expected if len(row) != len(header)]
    found = rows_of(text)
    if not isinstance(found, str):
        assert not wrong
        assert found == [row for row, _ in expected]
    elif "in every row" in found:
        assert f"Got {len(wrong[0][0])} in line {wrong[0][1]} " in found
    elif "does not end" in found:
        with pytest.raises(pd.errors.ParserError, match="EOF inside string"):
            pd.read_csv(io.StringIO(text), header=None, names=range(30), index_col=False)
    else:
        assert not header or len(set(header)) < len(header)


def test_rows_of_many_blocks(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n" + '1,"x\n"\n' * 9000)
    with DelimitedFile(tmp_path / "a.csv", infer_types=True) as file:
        frame = file.read_frame()
    assert (len(frame), frame["b"].unique().tolist()) == (9000, ["x\n"])
    (tmp_path / "b.csv").write_text("a,b\n" + '1,"x\n"\n' * 9000 + "1\n")
    with pytest.raises(TableError, match="Got 1 in line 18002 instead"):
        read(tmp_path / "b.csv", (tmp_path / "b.csv").read_bytes())


def test_files_of_an_entry(tmp_path):
    for name in ("b.csv", "a.PARQUET", "_c.csv", ".d.csv", "notes.txt"):
        (tmp_path / name).touch()
    assert find_files(str(tmp_path)) == [str(tmp_path / "a.PARQUET"), str(tmp_path / "b.csv")]
    assert find_files(str(tmp_path / "[_b]*.csv")) == [
        str(tmp_path / "_c.csv"),
        str(tmp_path / "b.csv"),
    ]
    with pytest.raises(FileNotFoundError, match="No file matches"):
        find_files(str(tmp_path / "*.tsv"))
    with pytest.raises(TableError, match="must end in"):
        find_files(str(tmp_path / "notes.txt"))
