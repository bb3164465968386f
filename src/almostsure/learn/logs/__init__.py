"""Learning from logs of what agents did: tables, CSV and Parquet files, trajectories, Minari datasets.

Every reader (:mod:`.read`, :mod:`.minari`) turns its log into *pieces*, which hold some rows of it in columns with our
names, and say where in the log each row stands.  :mod:`.columns` makes numbers of them, :mod:`.follow` checks that the
rows follow each other as the steps of episodes do, :mod:`.seen` counts outcomes, and :mod:`.learn` makes a shield of
the counts.  Nothing in a log is believed before that, and memory follows the outcomes seen (and the names of the
episodes), not the rows.
"""
