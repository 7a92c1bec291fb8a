PART const double *centred_row(const double *row, double *out) {
    unsigned c;
    for (c = 0; c < MERCER_COLUMNS; c++) out[c] = row[c] - centre[c];
    return out;
}

