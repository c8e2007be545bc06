"""A hand-written RayService as values of the chart.

`serve`, `pods` and `objects` put what has a value of its own into a Draft. The chart is rendered with
it, and what the render lacks goes to the escapes (`env`, `engineArgs`, annotations). A second render
is compared with the original, so that nothing is lost without a word.
"""
