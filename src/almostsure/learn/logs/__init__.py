"""Reading logs of what agents did: tables, CSV and Parquet files, trajectories, Minari datasets.

Every reader turns its log into *pieces*, which hold some rows of it in columns with our names, and say where in the log
each row stands.  :mod:`.columns` makes typed numbers of them, :mod:`.follow` checks that the rows follow each other as
the steps of episodes do, and :mod:`.seen` counts outcomes.  Nothing in a log is believed before that, and memory
follows the outcomes seen (and the names of the episodes), not the rows.
"""
