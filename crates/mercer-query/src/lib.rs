//! How a machine is asked: exact answers, decisions and what they cost
