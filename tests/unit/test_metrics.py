"""What a gateway counts, as a monitor reads it."""

from __future__ import annotations

from threadline.gateway.metrics import BUCKETS, Family, Metrics


def lines(metrics: Metrics, *others: Family) -> list[str]:
    return metrics.text(others).splitlines()


def test_counts_are_kept_apart_by_their_labels() -> None:
    metrics = Metrics()
    for verdict in ("accepted", "accepted", "refused"):
        metrics.message("telegram", verdict)
    metrics.message("slack", "accepted")
    assert 'threadline_messages_total{platform="telegram",verdict="accepted"} 2' in lines(metrics)
    assert 'threadline_messages_total{platform="slack",verdict="accepted"} 1' in lines(metrics)
    assert metrics.counted("messages_total", verdict="accepted") == 3
    assert metrics.counted("messages_total") == 4
    assert metrics.counted("turns_total") == 0


def test_buckets_hold_all_that_was_no_longer() -> None:
    metrics = Metrics()
    for seconds in (0.05, BUCKETS[0], 4.0, 10_000.0):
        metrics.turn_took(seconds)
    found = [line for line in lines(metrics) if line.startswith("threadline_turn_seconds")]
    assert 'threadline_turn_seconds_bucket{le="0.1"} 2' in found
    assert 'threadline_turn_seconds_bucket{le="2.5"} 2' in found
    assert 'threadline_turn_seconds_bucket{le="5"} 3' in found
    assert 'threadline_turn_seconds_bucket{le="1800"} 3' in found
    assert 'threadline_turn_seconds_bucket{le="+Inf"} 4' in found
    assert "threadline_turn_seconds_count 4" in found
    assert "threadline_turn_seconds_sum 10004.15" in found


def test_a_label_can_not_break_out_of_its_quotes() -> None:
    odd = Family("odd", "Odd.", {(("name", 'a"b\\c\nd'),): 1.5})
    assert 'threadline_odd{name="a\\"b\\\\c\\nd"} 1.5' in lines(Metrics(), odd)


def test_every_family_is_announced_once_before_its_values() -> None:
    metrics = Metrics()
    metrics.turn_lost()
    text = lines(metrics)
    names = [line.split()[2] for line in text if line.startswith("# TYPE")]
    assert len(names) == len(set(names))
    place = text.index("threadline_turns_lost_total 1")
    assert text[place - 1] == "# TYPE threadline_turns_lost_total counter"
    assert text[place - 2].startswith("# HELP threadline_turns_lost_total ")
