// The card: what the model is, what it promises, how it answers, and the words that the page uses.

import { bytes, count, h, number, percent, table } from './dom.js';

const WORDS = [
  ['Query', 'A row whose label is asked for.'],
  ['Support vector', 'A training example that the model kept: those near the border between classes, or on its wrong side. A kernel machine compares a query with its support vectors, and with nothing else; all other examples could be left out, and nothing would change.'],
  ['Kernel', 'The function that says how similar two rows are.'],
  ['Score', 'The sum of all similarities, each with its weight. Its sign, or the vote of several scores, gives the label.'],
  ['Border', 'Where the score is 0: on one side the label is one class, on the other side another.'],
  ['Exact answer', 'The whole sum, over all support vectors. It is what the model says, and the most expensive way to learn it. What the model says can still be wrong.'],
  ['Certified answer', 'Not the whole sum, but a range that provably contains it. When the whole range lies on one side of the border, the label cannot change any more: it is the exact label, with less work.'],
  ['Calibrated answer', 'An estimate that was far enough from the border in a test on other rows. A stated small share of such answers may differ from the exact label.'],
  ['Easy query', 'A row far from the border: a wide range is enough to see its label. Rows near the border are hard and need more work.'],
  ['Multiply-add', 'The unit of cost here: one multiplication and one addition.'],
];

function promise(card) {
  const { calibration } = card;
  if (card.contract.startsWith('exact')) return 'Every answer is the exact evaluation.';
  if (!calibration) return 'Every label is the exact one: answers are exact, or certified by a range that was proved, rounding included.';
  return `At most ${percent(calibration.eps)} of queries disagree with the exact label, with confidence ${percent(1 - calibration.delta)}. `
    + `Tested on ${count(calibration.queries)} queries: ${count(calibration.disagreements)} disagreed, so the share is at most ${percent(calibration.bound)}.`;
}

function tuning(text) {
  if (!text) return [h('p', {}, 'The plan was chosen by hand, or there is none: no record of a search is stored with the model.')];
  let record = text;
  try {
    record = typeof text === 'string' ? JSON.parse(text) : text;
  } catch { /* shown as it is */ }
  if (typeof record !== 'object') return [h('pre', {}, String(record))];
  const plain = Object.entries(record).filter(([name, value]) => name !== 'reason' && (typeof value !== 'object' || value === null));
  return [
    record.reason ? h('p', {}, `${record.reason}.`) : null,
    h('dl', {}, plain.map(([name, value]) => [h('dt', {}, name.replaceAll('_', ' ')), h('dd', {}, typeof value === 'number' ? number(value) : String(value))])),
    h('details', {}, h('summary', {}, 'The whole record'), h('pre', { tabIndex: 0 }, JSON.stringify(record, null, 1))),
  ];
}

function stages(card) {
  const list = [...card.stages, ...(card.stages.at(-1) === 'exact' ? [] : ['exact'])];
  const what = (at) => (at === list.length - 1
    ? `the whole sum, ${count(card.exact_multiply_adds)} multiply-adds`
    : at === 0 ? 'every query starts here' : 'queries that are still open');
  return h('ol', { class: 'stages' }, list.map((stage, at) => h('li', {}, h('code', {}, stage), h('small', {}, what(at)))));
}

function facts(session) {
  const { card, metadata: { versions } } = session;
  const columns = card.feature_names ? `${count(card.columns)}: ${card.feature_names.slice(0, 12).join(', ')}${card.columns > 12 ? ', …' : ''}` : count(card.columns);
  return [
    ['Kernel', h('code', {}, card.kernel)],
    ['Answers', { classes: `one of ${card.classes?.length} classes`, value: 'a number (regression)', novelty: 'like the training data, or not' }[card.output]],
    card.output === 'classes' ? ['Classes', card.classes.slice(0, 30).join(', ') + (card.classes.length > 30 ? ', …' : '')] : null,
    ['Support vectors', count(card.supports)],
    ['Columns', columns],
    ['Scaling of rows', card.scaling ? h('code', {}, card.scaling) : 'none'],
    ['Size', bytes(card.bytes)],
    card.mean_us ? ['Time of a row, on average', `${number(card.mean_us)} µs`] : null,
    ['Version', `${card.version}${versions.length > 1 ? `; the server holds ${versions.join(', ')}` : ''}`],
    ['Digest', h('code', { class: 'digest' }, card.digest)],
  ].filter(Boolean);
}

function audit({ audit: found, is_alarmed: isAlarmed }) {
  if (isAlarmed) return h('p', { class: 'alarm' }, 'The audit found the promise broken: the model answers by its proved plan now.');
  if (!found) return null;
  if (found.refused) return h('p', {}, `The audit is not possible: ${found.refused}.`);
  return h('p', {}, `Audit: ${count(found.audited)} answers were asked again exactly, ${count(found.disagreements)} had another label; `
    + `the true share lies between ${percent(found.low)} and ${percent(found.high)}.`);
}

export function cardView(session, into) {
  const { card } = session;
  const words = table(['word', 'what it means here'], WORDS, 'words of this page');
  words.classList.add('words');
  into.append(
    h('div', { class: 'columns' },
      h('section', {}, h('h3', {}, 'The model'), h('dl', {}, facts(session).map(([name, value]) => [h('dt', {}, name), h('dd', {}, value)]))),
      h('section', {},
        h('h3', {}, 'What it promises'), h('p', {}, h('code', {}, card.contract)), h('p', {}, promise(card)), audit(card),
        h('h3', {}, 'How a query is answered'),
        h('p', {}, 'Stage after stage, cheap ones first. A query leaves as soon as its label is settled.'), stages(card),
        card.left_out.length ? h('div', {}, h('p', {}, 'Left out, because what they rest on was not verified:'), h('ul', {}, card.left_out.map((stage) => h('li', {}, stage)))) : null,
        h('h3', {}, 'Why this plan'), tuning(card.tuning))),
    h('section', {}, h('h3', {}, 'Words'), words));
  return null;
}
