"""What `paddle table` does: tables of rows by id in files, looked at, brought into one portable file, and back.

A table is read from what a job saved (model.py), from servers' snapshots (snapshot.py) or from a portable file (portable.py). It
comes in blocks (rows.py), is put in the order of its ids with bounded memory (order.py), and written (formats.py, parts.py).
inspect.py tells what is in it; command.py has the words of the command line.
"""
