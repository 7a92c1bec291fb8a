// Play: a row by sliders, by text, from a file or drawn; its answer follows.

import { between, count, dropZone, field, h, number, percent, roomFor } from './dom.js';
import { latestWins } from './api.js';
import { columnName, columnsLike, parse, sideOf, WIDE } from './rows.js';
import { pad } from './pad.js';
import { scoreLine } from './draw.js';

/** Sliders at a time. */
const SLIDERS = 12;
/** Columns that are named as an example. */
const NAMED = 8;
/** Rows of a file that can be stepped through. */
const ROWS = 20000;

/** What the answers below and above 0 are called; nothing where 0 is no border. */
export function sidesOf({ output, classes }) {
  if (output === 'classes' && classes.length === 2) return [classes[1], classes[0]];
  return output === 'novelty' ? ['new', 'like the training data'] : null;
}

/** A label as the training data have it; of one class, what it means. */
export function labelText(card, label) {
  if (card.output === 'value') return number(label);
  return card.output === 'novelty' ? sidesOf(card)[Number(label > 0)] : String(label);
}

const SENTENCES = {
  exact: 'This is the exact evaluation over all support vectors.',
  certified: 'This is proved: the true score lies in the range, and nowhere in the range is the label another one.',
  calibrated: 'This is an estimate, far enough from the border that the stated risk holds.',
  unsettled: 'The budget was spent before the label was settled.',
};

/** The answer of a row in words and as a drawing. */
function answerPanel(session) {
  const panel = h('div', { aria: { live: 'polite' } });
  const { card } = session;
  const show = ({ label: [label], low: [low], high: [high], certainty: [certainty], cost: [cost] }) => {
    const share = cost / card.exact_multiply_adds;
    const isMulti = card.output === 'classes' && card.classes.length > 2;
    panel.replaceChildren(
      h('div', { class: 'answer', id: 'answer' }, labelText(card, label)),
      h('p', {}, h('span', { class: `badge ${certainty}` }, certainty), ' ', SENTENCES[certainty]),
      scoreLine({ low, high, certainty, sides: isMulti ? null : sidesOf(card), width: roomFor(500) }),
      h('p', {}, `${isMulti ? 'The smallest score of this class against another one' : 'The score'} ${between(low, high)}. `,
        isMulti && card.scheme === 'one_vs_one' && high < 0 ? 'It is below 0: the class loses that pair, but has most votes of the pairs. ' : '',
        `Cost: ${count(cost)} multiply-adds, ${percent(share)} of the exact evaluation.`));
  };
  const fail = (error) => panel.replaceChildren(h('p', { class: 'alarm', role: 'alert' }, error.message));
  return { panel, show, fail };
}

/** A slider and a number for one column. */
function slider(session, column) {
  const name = columnName(session.input, column);
  const [range, exact] = ['range', 'number'].map((type) => h('input', { type, step: 'any', aria: { label: type === 'range' ? name : `${name}, as a number` } }));
  const show = (from) => {
    const [low, high] = session.ranges[column];
    const isWhole = session.hasRanges && Number.isInteger(low) && Number.isInteger(high) && high - low >= 8;
    Object.assign(range, { min: low, max: high, step: isWhole ? 1 : (high - low) / 200 || 'any' });
    if (from !== range) range.value = session.row[column];
    if (from !== exact) exact.value = Number(session.row[column].toPrecision(6));
  };
  const take = (input) => () => {
    if (!Number.isFinite(input.valueAsNumber)) return;
    const row = Float64Array.from(session.row);
    row[column] = input.valueAsNumber;
    session.setRow(row, input);
  };
  range.addEventListener('input', take(range));
  exact.addEventListener('input', take(exact));
  return { element: h('div', { class: 'slider' }, h('span', { title: name, aria: { hidden: 'true' } }, name), range, exact), show };
}

function sliders(session) {
  const { columns } = session.card;
  const list = h('div', {});
  let shown = [];
  const search = h('input', { type: 'search', on: { input: () => choose() } });
  const choose = () => {
    shown = columnsLike(session, search.value).slice(0, SLIDERS).map((column) => slider(session, column));
    list.replaceChildren(...shown.map(({ element }) => element));
    shown.forEach(({ show }) => show());
  };
  choose();
  const hint = session.hasRanges ? null
    : h('p', {}, h('small', {}, session.card.show_supports ? 'The model does not say which values are usual' : 'The server does not say which values are usual (--show-supports would)', ': type numbers, or load rows, and the sliders follow.'));
  const first = columns > WIDE ? ', the largest values of the row first' : '';
  const many = columns > SLIDERS ? field(`Columns by name; ${SLIDERS} of ${count(columns)} are shown${first}`, search) : null;
  return {
    element: h('div', {}, many, hint, list),
    show: (from) => {
      // A slider that is moved stays in its place.
      if (columns > WIDE && !(from instanceof Element)) choose();
      shown.forEach(({ show }) => show(from));
    },
  };
}

/** Text and files: rows that can be stepped through. */
function rowsPanel(session) {
  const text = h('textarea', { placeholder: session.input.names ? `${session.input.names.slice(0, NAMED).join(',')}${session.input.names.length > NAMED ? ', …' : ''}` : 'values separated by commas, or LIBSVM: label index:value …', spellcheck: 'false' });
  const said = h('p', { role: 'status' });
  const at = h('input', { type: 'number', min: 1, value: 1, step: 1 });
  const { file } = session;
  const show = () => {
    const { rows } = file;
    steps.hidden = rows.length < 2;
    at.max = rows.length;
    at.value = file.at + 1;
    const label = rows[file.at]?.label;
    said.textContent = rows.length === 0 ? '' : `Row ${count(file.at + 1)} of ${count(rows.length)}${label === undefined ? '' : `, its label in the file is ${label}`}.`;
  };
  const go = (to) => {
    if (file.rows.length === 0) return;
    file.at = Math.min(Math.max(to, 0), file.rows.length - 1);
    session.setRow(file.rows[file.at].values, 'rows');
    show();
  };
  const load = (words) => {
    try {
      file.rows = parse(words, session.input, ROWS);
      session.learnRanges(file.rows.slice(0, 2000));
      session.problem(null);
      go(0);
    } catch (error) {
      file.rows = [];
      show();
      session.problem(error);
    }
  };
  at.addEventListener('change', () => go(at.valueAsNumber - 1));
  const button = (words, by) => h('button', { type: 'button', on: { click: () => go(file.at + by) } }, words);
  const steps = h('div', { class: 'row' }, button('◀ Previous', -1), h('label', { class: 'inline' }, h('span', {}, 'Row'), at), button('Next ▶', 1));
  const paste = h('button', { type: 'button', on: { click: () => load(text.value) } }, 'Use this text');
  show();
  return h('div', {},
    dropZone('Drop a CSV or LIBSVM file here, or choose one', async (chosen) => load(await chosen.text())),
    field('Or paste rows (CSV or LIBSVM)', text), h('div', { class: 'row' }, paste), steps, said);
}

export function playView(session, into) {
  const side = sideOf(session.card.columns);
  const { panel, show, fail } = answerPanel(session);
  const ask = latestWins((row) => session.model.infer([row]), show, fail);
  const drawing = side ? pad(session, side) : null;
  const columns = sliders(session);
  into.append(
    h('p', { class: 'lead' }, 'Change a row and see its answer: a label, the range in which its score provably lies, how certain that is, and what it cost.'),
    h('div', { class: 'columns' },
      h('div', {},
        h('section', {}, h('h3', {}, 'The row'), drawing?.element, side ? h('details', {}, h('summary', {}, 'Values of columns'), columns.element) : columns.element),
        h('section', {}, h('h3', {}, 'Rows of your own'), rowsPanel(session))),
      h('section', { class: 'first' }, h('h3', {}, 'The answer'), panel)));
  const update = (from) => {
    drawing?.show();
    columns.show(from);
    ask(session.row);
  };
  update();
  return session.onRow(update);
}
