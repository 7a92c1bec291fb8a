PART int label_of_score(double score) { return score > 0 ? 0 : 1; }

