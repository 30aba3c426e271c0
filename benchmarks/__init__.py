"""Speed as ratios against named peers that give the same answer in the same run."""
