"""What columns are: profiles, roles and columns that say the same."""
