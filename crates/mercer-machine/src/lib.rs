//! What was learned: machines, the vote, and the files that hold them
