// Batch: the rows of a file, answered line by line while they are sent.

import { count, dropZone, field, h, number, percent, plural, table } from './dom.js';
import { agree, parse } from './rows.js';

/** Rows of a table that are shown; all of them are in the file. */
const SHOWN = 200;
const TYPES = { csv: 'text/csv', svm: 'application/x-libsvm', libsvm: 'application/x-libsvm', parquet: 'application/vnd.apache.parquet', arrow: 'application/vnd.apache.arrow.file', feather: 'application/vnd.apache.arrow.file' };
/** Text beyond this is not read for labels. */
const LABELLED = 64e6;

/** The text of a file, unpacked if need be. */
function textOf(file, isPacked) {
  return isPacked ? new Response(file.stream().pipeThrough(new DecompressionStream('gzip'))).text() : file.text();
}

/** Labels of the rows of a text file; none if it has none. */
async function labelsOf(file, isPacked, input, target) {
  // Text may shrink to a tenth.
  if (file.size * (isPacked ? 10 : 1) > LABELLED) return null;
  try {
    const rows = parse(await textOf(file, isPacked), target ? { ...input, target } : input);
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
const WRONG = ['row', 'label in the file', 'answer', 'certainty', 'cost'];
const wrongCells = ({ row, expected, label, certainty, cost }) => [count(row), expected, label, certainty, count(cost)];
const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const csvLine = ({ row, label, low, high, certainty, cost }) => `${row},${quoted(label)},${low ?? '-inf'},${high ?? 'inf'},${certainty},${cost}\n`;

class Tally {
  constructor(labels) {
    Object.assign(this, { labels, rows: 0, cost: 0, certainties: {}, wrong: 0, parts: [`${HEAD.join(',')}\n`] });
  }

  /** Counts an answer; the label of the file, if it is another one. */
  add(answer) {
    this.rows += 1;
    this.cost += answer.cost;
    this.certainties[answer.certainty] = (this.certainties[answer.certainty] ?? 0) + 1;
    this.parts.push(csvLine(answer));
    // Of tables that the page cannot read the server sends the label column along, as ids.
    const label = this.labels === 'ids' ? answer.id : this.labels?.[answer.row - 1];
    if (label === undefined || agree(label, answer.label)) return null;
    this.wrong += 1;
    return label;
  }
}

export function batchView(session, into) {
  const [said, results] = [h('p', { role: 'status', id: 'batch-status' }), h('div', {})];
  const target = h('input', { type: 'text', placeholder: session.input.target ?? 'guessed' });
  const stop = h('button', { type: 'button', hidden: true }, 'Stop');
  let work = null;
  let address = null;

  const isCompared = ({ labels }) => labels && session.card.output !== 'value';
  const summary = (tally) => {
    if (!tally.rows) return '';
    const shares = Object.entries(tally.certainties).map(([name, rows]) => `${percent(rows / tally.rows)} ${name}`);
    const compared = isCompared(tally) ? ` ${count(tally.wrong)} differ from the label column (${percent(tally.wrong / tally.rows)}).` : '';
    return `${plural(tally.rows, 'row')}: ${shares.join(', ')}; mean cost ${percent(tally.cost / tally.rows / session.card.exact_multiply_adds)} of exact.${compared}`;
  };
  /** Tables that answers are added to as they come, and the file of all that came. */
  const tables = (tally) => {
    const [file, more, wrong] = ['p', 'p', 'h3'].map((tag) => h(tag, {}));
    const [answers, differing] = [table(HEAD, [], 'answers'), table(WRONG, [], 'disagreements')];
    const place = (into, texts) => {
      const body = into.querySelector('tbody');
      if (body.rows.length < SHOWN) body.append(h('tr', {}, texts.map((text) => h('td', {}, text))));
    };
    results.replaceChildren(
      h('section', {}, h('h3', {}, 'Answers'), file, more, answers),
      isCompared(tally) ? h('section', {}, wrong, differing) : '');
    const update = () => {
      said.textContent = summary(tally);
      more.textContent = tally.rows > SHOWN ? `The first ${SHOWN} of ${count(tally.rows)} rows are shown.` : '';
      wrong.textContent = `Answers that differ from the label column: ${count(tally.wrong)}`;
      differing.hidden = tally.wrong === 0;
    };
    update();
    return {
      update,
      add: (answer) => {
        const expected = tally.add(answer);
        place(answers, cells(answer));
        if (expected !== null) place(differing, wrongCells({ ...answer, expected }));
      },
      /** All that came becomes a file. */
      finish: (name, isWhole) => {
        update();
        if (!tally.rows) { results.replaceChildren(); return; }
        if (address) URL.revokeObjectURL(address);
        address = URL.createObjectURL(new Blob(tally.parts, { type: 'text/csv' }));
        file.replaceChildren(h('a', { href: address, download: `${name}.answers.csv`, id: 'download' }, isWhole ? 'Download all answers (CSV)' : `Download the ${plural(tally.rows, 'answer')} that came (CSV)`));
      },
    };
  };
  const take = async (file) => {
    work?.abort();
    const own = new AbortController();
    work = own;
    session.problem(null);
    stop.hidden = false;
    results.replaceChildren();
    said.textContent = `${file.name} is being sent …`;
    const parts = file.name.toLowerCase().split('.');
    const isPacked = parts.at(-1) === 'gz';
    const ending = parts.at(isPacked ? -2 : -1);
    const query = { output: 'jsonl', ...(target.value ? { target: target.value } : {}) };
    const column = target.value || session.input.target;
    const isTable = ['parquet', 'arrow', 'feather'].includes(ending);
    if (isTable && column) query.id = column;
    let shown = null;
    try {
      const tally = new Tally(isTable ? (query.id ? 'ids' : null) : await labelsOf(file, isPacked, session.input, target.value));
      const ask = () => session.model.batch(query, TYPES[ending] ? { 'Content-Type': TYPES[ending] } : {}, file, own.signal);
      const response = await ask().catch((error) => {
        // The target column of the training data need not be in this table.
        if (!query.id || target.value || error.status !== 400) throw error;
        delete query.id;
        tally.labels = null;
        return ask();
      });
      shown = tables(tally);
      for await (const lines of linesOf(response)) {
        for (const line of lines.filter(Boolean)) {
          const answer = JSON.parse(line);
          if (answer.error) throw new Error(answer.error);
          shown.add(answer);
        }
        shown.update();
      }
      shown.finish(file.name, true);
    } catch (error) {
      if (own !== work) return;
      const isStopped = error.name === 'AbortError';
      if (!isStopped) session.problem(error);
      // What came before is kept.
      said.textContent = '';
      shown?.finish(file.name, false);
      said.textContent = `${isStopped ? 'Stopped' : 'Ended early'}. ${said.textContent}`;
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
