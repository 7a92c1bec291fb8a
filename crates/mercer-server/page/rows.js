// Rows from text: CSV with or without a head, and LIBSVM. What cannot be read is refused with the number of the line.

const LIBSVM = /^\S+(\s+\d+:\S+)+\s*(#.*)?$/;
const TARGETS = ['label', 'target', 'class', 'y'];

/** Rows of more columns are sent as their non-zero values, and controls show some of their columns only. */
export const WIDE = 1000;

/** A row as the values that are not 0, and their columns. */
export function nonzeros(row) {
  const places = [];
  row.forEach((value, column) => { if (value !== 0) places.push(column); });
  return { columns: row.length, places, values: places.map((column) => row[column]) };
}

/** What is known of the rows of a model. */
export function inputOf(card, metadata) {
  const { target, zero_based: zeroBased } = metadata.properties;
  return { columns: card.columns, names: card.feature_names, target, zeroBased: zeroBased === 'true' };
}

/** Name of a column. */
export const columnName = (input, column) => input.names?.[column] ?? `column ${column + 1}`;

function finite(text, line) {
  const value = text.trim() === '' ? NaN : Number(text);
  if (!Number.isFinite(value)) throw new Error(`line ${line}: '${text}' is no number`);
  return value;
}

function libsvmRow(text, line, input) {
  const [label, ...pairs] = text.replace(/#.*/, '').trim().split(/\s+/);
  const [places, values] = [[], []];
  for (const pair of pairs) {
    const [index, value] = pair.split(':');
    const column = Number(index) - (input.zeroBased ? 0 : 1);
    if (!(column >= 0 && column < input.columns)) {
      throw new Error(`line ${line}: column ${index} is not one of the model's ${input.columns}`);
    }
    places.push(column);
    values.push(finite(value, line));
  }
  // Made when it is asked for: a file may have more rows than fit in memory with their zeros.
  return { label, get values() { return denseRow({ indices: places, values }, input.columns); } };
}

/** Fields of a line of a table; quotes protect separators. */
export function fields(line, separator) {
  const found = [];
  let field = '';
  let isQuoted = false;
  for (let at = 0; at < line.length; at += 1) {
    const letter = line[at];
    if (isQuoted && letter === '"' && line[at + 1] === '"') { field += '"'; at += 1; }
    else if (letter === '"') isQuoted = !isQuoted;
    else if (letter === separator && !isQuoted) { found.push(field); field = ''; }
    else field += letter;
  }
  found.push(field);
  return found;
}

const isNumber = (text) => text.trim() !== '' && Number.isFinite(Number(text));

/** Where each column of the model stands in the table, and where the label. */
function places(head, width, input) {
  const all = Array.from({ length: width }, (_, place) => place);
  const named = (name) => (head && name ? head.indexOf(name) : -1);
  let label = named(input.target);
  if (head && input.names && input.names.every((name) => head.includes(name))) {
    if (label < 0) label = head.findIndex((name) => TARGETS.includes(name.toLowerCase()) && !input.names.includes(name));
    return { columns: input.names.map((name) => head.indexOf(name)), label };
  }
  if (width === input.columns) return { columns: all, label: -1 };
  if (label < 0 && head) label = head.findIndex((name) => TARGETS.includes(name.toLowerCase()));
  if (label < 0) label = width - 1;
  if (width === input.columns + 1) return { columns: all.filter((place) => place !== label), label };
  throw new Error(`the rows have ${width} columns, the model has ${input.columns}`);
}

/** All rows of a text, at most so many: values, and the label if there is one. */
export function parse(text, input, most = Infinity) {
  const lines = text.split(/\r?\n/).map((line, at) => [line, at + 1])
    .filter(([line]) => line.trim() !== '' && !line.startsWith('#'));
  if (lines.length === 0) throw new Error('there is no row in the text');
  if (LIBSVM.test(lines[0][0])) return lines.slice(0, most).map(([line, at]) => libsvmRow(line, at, input));
  const separator = [',', ';', '\t'].find((letter) => lines[0][0].includes(letter)) ?? ' ';
  const split = (line) => (separator === ' ' ? line.trim().split(/\s+/) : fields(line, separator)).map((part) => part.trim());
  const first = split(lines[0][0]);
  const hasHead = !first.some(isNumber);
  const where = places(hasHead ? first : null, first.length, input);
  return lines.slice(hasHead ? 1 : 0).slice(0, most).map(([line, at]) => {
    const parts = split(line);
    if (parts.length !== first.length) throw new Error(`line ${at} has ${parts.length} fields, the first has ${first.length}`);
    return {
      values: Float64Array.from(where.columns, (place) => finite(parts[place], at)),
      label: where.label >= 0 ? parts[where.label] : undefined,
    };
  });
}

/** Whether a label of a file and an answer mean the same; `+1`, `1` and `1.0` do. */
export function agree(label, answer) {
  const [one, other] = [String(label), String(answer)];
  return one === other || (isNumber(one) && isNumber(other) && Number(one) === Number(other));
}

/** A row as text for the address of the page: values that are not 0. */
export function encodeRow(row) {
  const { places, values } = nonzeros(row);
  return places.map((column, place) => `${column}:${values[place]}`).join(',');
}

/** The row of such a text; none if it is of another model. */
export function decodeRow(text, columns) {
  const row = new Float64Array(columns);
  for (const part of text.split(',').filter(Boolean)) {
    const [column, value] = part.split(':').map(Number);
    if (!(column >= 0 && column < columns) || !Number.isFinite(value)) return null;
    row[column] = value;
  }
  return row;
}

/** Columns whose name holds a text; of very many those where the row has its largest values stand first. */
export function columnsLike(session, text) {
  const { input, row, card } = session;
  const wanted = text.toLowerCase();
  const found = Array.from({ length: card.columns }, (_, column) => column)
    .filter((column) => columnName(input, column).toLowerCase().includes(wanted));
  return card.columns > WIDE ? found.sort((a, b) => Math.abs(row[b]) - Math.abs(row[a]) || a - b) : found;
}

/** A support as the server gives it, with its zeros. */
export function denseRow({ indices, values }, columns) {
  const row = new Float64Array(columns);
  indices.forEach((column, place) => { if (column < columns) row[column] = values[place]; });
  return row;
}

/** A row before its scaling, where that can be undone; twelve digits, so that whole numbers are whole again. */
export function unscaled(row, { centres, factors }) {
  if (!centres) return row;
  return row.map((value, column) => Number(((factors[column] ? value / factors[column] : 0) + (centres[column] ?? 0)).toPrecision(12)));
}

/** Side of a square picture that rows of this width are; 0 if they are none. */
export const sideOf = (columns) => (columns === 64 ? 8 : columns === 784 ? 28 : 0);
