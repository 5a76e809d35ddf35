"""Two populations of entries beside each other: what differs around them, then by how much they do.

`selectors` reads what somebody types, `sides` finds the entries, `conditions` what each was measured with,
`pairs` which belong together, `differences` whether that is one population, `figures` the ratios, `failing`
what `--fail-on` makes of them; `document`, `text` and `pull_request` show it.
"""
