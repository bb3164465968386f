"""Learning from logs: tables, CSV and Parquet files, trajectories, Minari datasets.

The readers (:mod:`.read`, :mod:`.minari`) divide a log into *pieces* of some rows each, in columns with our names and
with the place of each row in the log.  :mod:`.columns` converts them to numbers, :mod:`.follow` checks that the rows
are consecutive steps of episodes, :mod:`.seen` counts outcomes, and :mod:`.learn` makes a shield from the counts.
Everything in a log is checked, and memory grows with the outcomes seen (and the names of the episodes), not with the
rows.
"""
