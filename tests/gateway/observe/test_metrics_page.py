"""The memory in which one process counts and all processes read."""

from gateway.observe.metrics_page import CELLS, PAGE_BYTES, USED_BYTES, MetricsPage


def test_incomplete_entry_is_read_later() -> None:
    memory = memoryview(bytearray(PAGE_BYTES))
    writer, reader, entries = MetricsPage(memory), MetricsPage(memory), memory[CELLS * 8 :]
    writer.first_cell(("first",))
    used = writer.cells[USED_BYTES]
    place = writer.first_cell(("second",), 2)
    writer.cells[place + 1] = 7.0
    assert dict(reader.read()) == {("first",): [0.0], ("second",): [0.0, 7.0]}
    late = MetricsPage(memory)
    entry = bytes(entries[int(used) : int(writer.cells[USED_BYTES])])
    entries[int(used) : int(used) + len(entry)] = bytes(len(entry))  # as another processor may see the entry at first
    assert dict(late.read()) == {("first",): [0.0]}
    entries[int(used) : int(used) + len(entry)] = entry
    assert dict(late.read()) == {("first",): [0.0], ("second",): [0.0, 7.0]}
