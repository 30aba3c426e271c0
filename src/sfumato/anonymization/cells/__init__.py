"""k-anonymity by suppressing the fewest cells.

After Park & Shim, *Approximate Algorithms for k-Anonymity*.
Groups of rows show a value where all of them agree and a star where they do not.
"""
