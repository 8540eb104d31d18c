"""Reads traces with Perfetto's own messages and with pyarrow, and prints a summary of each as JSON.

    read.py FILE...

The tests of `weft` compare the summaries with the documents of the same runs. It ends with an error if a file is not what its name
says: a field that the published messages do not have, a span that does not end, a packet without a time.
"""

import collections
import json
import sys


def perfetto(path):
    from google.protobuf.unknown_fields import UnknownFieldSet
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as messages

    def known(message):
        """Checks that the published messages have all fields."""
        assert len(UnknownFieldSet(message)) == 0, f"{path}: unknown fields in {message}"
        for field, value in message.ListFields():
            if field.message_type:
                values = value if isinstance(value, collections.abc.Sequence) or hasattr(value, "add") else [value]
                for one in values:
                    known(one)

    trace = messages.Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    event_type = messages.TrackEvent
    tracks, events = {}, []
    for packet in trace.packet:
        known(packet)
        assert packet.trusted_packet_sequence_id == 1
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert track.uuid not in tracks and track.name
            assert not track.HasField("parent_uuid") or track.parent_uuid in tracks
            tracks[track.uuid] = track
        if packet.HasField("track_event"):
            assert packet.HasField("timestamp")
            events.append((packet.timestamp, packet.track_event))
    events.sort(key=lambda event: event[0])
    opened, spans, flows, wire = collections.defaultdict(list), collections.Counter(), collections.Counter(), 0
    counters = collections.Counter()
    for at, event in events:
        track = tracks[event.track_uuid]
        if event.type == event_type.TYPE_SLICE_BEGIN:
            assert event.name and len(event.flow_ids) <= 1
            opened[event.track_uuid].append(at)
            spans[track.name] += 1
            flows.update(event.flow_ids)
            for note in event.debug_annotations:
                if track.name == "wire" and note.name in ("wire bytes", "bytes"):
                    wire += note.uint_value
        elif event.type == event_type.TYPE_SLICE_END:
            opened[event.track_uuid].pop()
        elif event.type == event_type.TYPE_COUNTER:
            assert track.counter.unit == messages.CounterDescriptor.UNIT_SIZE_BYTES and event.counter_value >= 0
            counters[track.name] += 1
        else:
            raise AssertionError(f"{path}: event of type {event.type}")
    assert not any(opened.values()), f"{path}: spans that do not end"
    roots = sorted(track.name for track in tracks.values() if not track.HasField("parent_uuid"))
    return {
        "spans": dict(spans),
        "flows": len(flows),
        "joined": sum(count > 1 for count in flows.values()),
        "counters": dict(counters),
        "wire_bytes": wire,
        "roots": roots,
    }


def parquet(path):
    import pyarrow.compute as compute
    import pyarrow.parquet as reader

    file = reader.ParquetFile(path)
    table = file.read()
    sums = {
        name: compute.sum(table[name]).as_py() or 0
        for name in table.column_names
        if str(table[name].type) in ("uint64", "double", "bool")
    }
    texts = {
        name: dict(collections.Counter(table[name].to_pylist()).most_common(20))
        for name in table.column_names
        if str(table[name].type) == "string"
    }
    return {
        "rows": table.num_rows,
        "schema": (file.schema_arrow.metadata or {}).get(b"schema", b"").decode(),
        "columns": {name: str(table[name].type) for name in table.column_names},
        "nulls": {name: table[name].null_count for name in table.column_names},
        "sums": sums,
        "texts": {name: {str(key): count for key, count in counts.items()} for name, counts in texts.items()},
    }


if __name__ == "__main__":
    read = {True: parquet, False: perfetto}
    print(json.dumps([read[path.endswith(".parquet")](path) for path in sys.argv[1:]]))
