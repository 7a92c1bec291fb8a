// Batch: the rows of a file, answered line by line while they are sent.

import { count, dropZone, field, h, number, percent, table } from './dom.js';
import { agree, parse } from './rows.js';

/** Lines that are shown; all of them are in the file. */
const SHOWN = 200;
const TYPES = { csv: 'text/csv', svm: 'application/x-libsvm', libsvm: 'application/x-libsvm', parquet: 'application/vnd.apache.parquet', arrow: 'application/vnd.apache.arrow.file', feather: 'application/vnd.apache.arrow.file' };
/** Text beyond this is not read for labels. */
const LABELLED = 64e6;

/** Labels of the rows of a text file; none if it has none. */
async function labelsOf(file, input, target) {
  if (file.size > LABELLED) return null;
  try {
    const rows = parse(await file.text(), target ? { ...input, target } : input);
    return rows[0]?.label === undefined ? null : rows.map(({ label }) => label);
  } catch {
    // The server reads more kinds of tables; it says what is wrong.
    return null;
  }
}

/** Lines of a response as they come. */
async function* linesOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const lines = (rest + value).split('\n');
    rest = lines.pop();
    yield lines;
  }
  if (rest) yield [rest];
}

const cells = ({ row, label, low, high, certainty, cost }) => [count(row), label, number(low ?? -Infinity), number(high ?? Infinity), certainty, count(cost)];
const HEAD = ['row', 'label', 'low', 'high', 'certainty', 'cost'];
const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const csvLine = ({ row, label, low, high, certainty, cost }) => `${row},${quoted(label)},${low ?? '-inf'},${high ?? 'inf'},${certainty},${cost}\n`;

class Tally {
  constructor(labels) {
    Object.assign(this, { labels, rows: 0, cost: 0, certainties: {}, shown: [], disagreements: [], wrong: 0, parts: [`${HEAD.join(',')}\n`] });
  }

  add(answer) {
    this.rows += 1;
    this.cost += answer.cost;
    this.certainties[answer.certainty] = (this.certainties[answer.certainty] ?? 0) + 1;
    this.parts.push(csvLine(answer));
    if (this.shown.length < SHOWN) this.shown.push(answer);
    // Of tables that the page cannot read the server sends the label column along, as ids.
    const label = this.labels === 'ids' ? answer.id : this.labels?.[answer.row - 1];
    if (label !== undefined && !agree(label, answer.label)) {
      this.wrong += 1;
      if (this.disagreements.length < SHOWN) this.disagreements.push({ ...answer, expected: label });
    }
  }
}

export function batchView(session, into) {
  const [said, results] = [h('p', { role: 'status', id: 'batch-status' }), h('div', {})];
  const target = h('input', { type: 'text', placeholder: session.input.target ?? 'guessed' });
  const stop = h('button', { type: 'button', hidden: true }, 'Stop');
  let work = null;
  let address = null;

  const summary = (tally) => {
    const shares = Object.entries(tally.certainties).map(([name, rows]) => `${percent(rows / tally.rows)} ${name}`);
    const compared = tally.labels && session.card.output !== 'value' ? ` ${count(tally.wrong)} differ from the label column (${percent(tally.wrong / tally.rows)}).` : '';
    return `${count(tally.rows)} rows: ${shares.join(', ')}; mean cost ${percent(tally.cost / tally.rows / session.card.exact_multiply_adds)} of exact.${compared}`;
  };
  const show = (tally, name) => {
    said.textContent = summary(tally);
    if (address) URL.revokeObjectURL(address);
    address = URL.createObjectURL(new Blob(tally.parts, { type: 'text/csv' }));
    const isCompared = tally.labels && session.card.output !== 'value';
    results.replaceChildren(
      h('section', {}, h('h3', {}, 'Answers'), h('p', {}, h('a', { href: address, download: `${name}.answers.csv`, id: 'download' }, 'Download all answers (CSV)')),
        tally.rows > SHOWN ? h('p', {}, h('small', {}, `The first ${SHOWN} of ${count(tally.rows)} rows are shown.`)) : null,
        table(HEAD, tally.shown.map(cells), 'answers')),
      isCompared ? h('section', {}, h('h3', {}, `Answers that differ from the label column: ${count(tally.wrong)}`),
        tally.wrong ? table(['row', 'label in the file', 'answer', 'certainty', 'cost'], tally.disagreements.map((answer) => [count(answer.row), answer.expected, answer.label, answer.certainty, count(answer.cost)]), 'disagreements') : h('p', {}, 'None.')) : null);
  };
  const take = async (file) => {
    work?.abort();
    const own = new AbortController();
    work = own;
    session.problem(null);
    stop.hidden = false;
    results.replaceChildren();
    said.textContent = `${file.name} is being sent …`;
    const ending = file.name.toLowerCase().split('.').pop();
    const query = { output: 'jsonl', ...(target.value ? { target: target.value } : {}) };
    const column = target.value || session.input.target;
    const isTable = ['parquet', 'arrow', 'feather'].includes(ending);
    if (isTable && column) query.id = column;
    try {
      const labels = isTable ? (query.id ? 'ids' : null) : await labelsOf(file, session.input, target.value);
      const tally = new Tally(labels);
      const ask = () => session.model.batch(query, TYPES[ending] ? { 'Content-Type': TYPES[ending] } : {}, file, own.signal);
      const response = await ask().catch((error) => {
        // The target column of the training data need not be in this table.
        if (!query.id || target.value || error.status !== 400) throw error;
        delete query.id;
        tally.labels = null;
        return ask();
      });
      for await (const lines of linesOf(response)) {
        for (const line of lines.filter(Boolean)) {
          const answer = JSON.parse(line);
          if (answer.error) throw new Error(answer.error);
          tally.add(answer);
        }
        said.textContent = summary(tally);
      }
      show(tally, file.name);
    } catch (error) {
      if (own === work) said.textContent = error.name === 'AbortError' ? 'Stopped.' : '';
      if (error.name !== 'AbortError') session.problem(error);
    } finally {
      if (own === work) stop.hidden = true;
    }
  };
  stop.addEventListener('click', () => work?.abort());
  into.append(
    h('p', { class: 'lead' }, 'Drop a file of rows: CSV, LIBSVM text, Parquet or Arrow, also packed with gzip. Answers come while it is read, and stay in this page. With a label column, answers that differ from it are listed.'),
    h('section', {}, dropZone('Drop a file here, or choose one', take), field('Label column of the table', target, { hint: 'by name or number; leave it empty to have it guessed (Parquet and Arrow: to compare, name it)' }), h('div', { class: 'row' }, stop), said),
    results);
  return () => { work?.abort(); if (address) URL.revokeObjectURL(address); };
}
