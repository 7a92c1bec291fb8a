// The page: which model, which view, and the row that the views share. Model, view and row stand in the fragment of the address.

import { h } from './dom.js';
import { extensions, Model, onTokenNeeded } from './api.js';
import { decodeRow, denseRow, encodeRow, inputOf, unscaled } from './rows.js';
import { cardView } from './card.js';
import { playView } from './play.js';
import { watchView } from './watch.js';
import { sliceView } from './slice.js';
import { batchView } from './batch.js';
import { liveView } from './live.js';

const VIEWS = [
  ['card', 'Card', cardView], ['play', 'Play', playView], ['watch', 'Watch the range close', watchView],
  ['hard', 'Where it is hard', sliceView], ['batch', 'Batch', batchView], ['live', 'Live', liveView],
];
/** Supports that ranges of columns are taken from, and their values together. */
const SOME_SUPPORTS = 300;
const VALUES = 2e6;
/** A row of more letters does not stand in the address. */
const LONGEST = 1e5;
/** Rows that are kept to know where rows usually lie. */
const SAMPLE = 500;

const byId = (id) => document.getElementById(id);
let session = null;
let shown = { name: '', leave: null };

function problem(error) {
  const line = byId('problem');
  line.hidden = !error;
  line.textContent = error ? (error.message ?? String(error)) : '';
}

onTokenNeeded((wasWrong) => new Promise((resolve) => {
  const [dialog, text] = [byId('token'), byId('token-text')];
  byId('token-wrong').hidden = !wasWrong;
  text.value = '';
  dialog.addEventListener('cancel', (event) => event.preventDefault());
  dialog.addEventListener('close', () => { resolve(text.value); text.value = ''; }, { once: true });
  if (!dialog.open) dialog.showModal();
}));

/** What the fragment says. */
const wanted = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));

/** The fragment of a view with the row as it is. */
function fragment(view) {
  const row = encodeRow(session.row);
  // Browsers refuse addresses that are too long.
  const state = new URLSearchParams({ model: session.name, view, ...(row.length < LONGEST ? { row } : {}) });
  return `#${state.toString().replaceAll('%3A', ':').replaceAll('%2C', ',')}`;
}

let saving = 0;
/** The fragment that was followed or written last. Another one was chosen since, and is about to be followed. */
let known = '';
function save() {
  clearTimeout(saving);
  // Browsers limit how often an address may change.
  saving = setTimeout(() => {
    if (shown.name === '' || location.hash !== known) return;
    history.replaceState(null, '', fragment(shown.name));
    known = location.hash;
    links();
  }, 150);
}

/** Rows of so many columns that can be kept with all their zeros. */
const fewRows = (columns) => Math.max(3, Math.floor(VALUES / columns));

/** Least and largest value of each column in some rows. */
function rangesOf(rows, columns) {
  const ranges = Array.from({ length: columns }, () => [Infinity, -Infinity]);
  for (const row of rows) {
    row.forEach((value, column) => {
      const range = ranges[column];
      range[0] = Math.min(range[0], value);
      range[1] = Math.max(range[1], value);
    });
  }
  return ranges;
}

/** All that views share of one model. */
class Session {
  constructor(name, model, card, metadata) {
    Object.assign(this, { name, model, card, metadata, input: inputOf(card, metadata), problem });
    this.ranges = Array.from({ length: card.columns }, () => [0, 1]);
    this.row = new Float64Array(card.columns);
    this.listeners = new Set();
    /** Some rows as the user has them, for ranges and directions. */
    this.sample = [];
    this.file = { rows: [], at: 0 };
    /** Whether the model has changed since it was opened: another view opens it again, once all changes are done. */
    this.isStale = false;
    this.changing = null;
    // Whether scaled supports can be shown as rows of the user.
    this.canUnscale = card.scaling === null || /^(standard|min_max|max_abs)/.test(card.scaling);
  }

  static async open(name) {
    const model = new Model(name);
    const [card, metadata] = await Promise.all([model.card(), model.metadata()]);
    const made = new Session(name, model, card, metadata);
    if (card.show_supports && made.canUnscale && card.supports > 0 && !card.kernel.startsWith('precomputed')) {
      const found = await model.supports(0, Math.min(SOME_SUPPORTS, fewRows(card.columns)));
      const rows = found.supports.map((support) => ({ values: unscaled(denseRow(support, card.columns), found) }));
      made.learnRanges(rows);
      made.row = rows[0].values;
    }
    return made;
  }

  /** Widens the ranges of columns by some of these rows, or replaces them if nothing was known. */
  learnRanges(all) {
    const rows = all.slice(0, fewRows(this.card.columns)).map(({ values }) => values);
    this.sample = [...this.sample, ...rows].slice(-Math.min(SAMPLE, fewRows(this.card.columns)));
    const found = rangesOf(rows, this.card.columns);
    this.ranges = this.ranges.map((known, column) => {
      const [low, high] = this.hasRanges ? [Math.min(known[0], found[column][0]), Math.max(known[1], found[column][1])] : found[column];
      return low < high ? [low, high] : [low - 1, low + 1];
    });
    this.hasRanges = true;
  }

  /** Takes another row; `from` is who says so. */
  setRow(row, from) {
    this.row = Float64Array.from(row);
    this.row.forEach((value, column) => {
      const [low, high] = this.ranges[column];
      if (value < low || value > high) this.ranges[column] = [Math.min(low, value), Math.max(high, value)];
    });
    this.listeners.forEach((listener) => listener(from));
    save();
  }

  /** Calls when the row changes, until the view is left. */
  onRow(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

function links() {
  const state = new URLSearchParams(location.hash.slice(1));
  for (const link of byId('views').children) {
    state.set('view', link.dataset.view);
    link.href = `#${state}`;
    if (link.dataset.view === shown.name) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
}

function showView(name) {
  const found = VIEWS.find(([known]) => known === name) ?? VIEWS[0];
  const [id, title, make] = found;
  if (shown.leave) shown.leave();
  problem(null);
  const main = byId('main');
  main.replaceChildren();
  const leave = make(session, main);
  main.prepend(h('h2', {}, title));
  document.title = `${title} · ${session.name} · mercer`;
  shown = { name: id, leave };
  save();
  links();
}

/** Calls of `follow`: a later one ends an earlier one that still waits. */
let followed = 0;

async function follow() {
  followed += 1;
  const own = followed;
  known = location.hash;
  const { model, view, row } = wanted();
  const names = [...byId('model').options].map((option) => option.value);
  const name = names.includes(model) ? model : names[0];
  try {
    const isNew = session?.name !== name || (session.isStale && view !== shown.name);
    if (isNew) {
      shown.leave?.();
      shown = { name: '', leave: null };
      await session?.changing;
      const opened = await Session.open(name);
      if (own !== followed) return;
      session = opened;
      byId('model').value = name;
    }
    const given = row === undefined ? null : decodeRow(row, session.card.columns);
    if (given && encodeRow(session.row) !== row) session.setRow(given, 'address');
    if (isNew || view !== shown.name) showView(view);
  } catch (error) {
    if (own === followed) problem(error);
  }
}

async function start() {
  try {
    const [names, more] = await Promise.all([Model.list(), extensions()]);
    if (more.includes('train')) VIEWS.unshift(['train', 'Train', (await import('./train.js')).trainView]);
    // The row may be newer than the address: a link takes it along when it is followed.
    const follows = (name) => ({ click: (event) => { if (session) event.currentTarget.href = fragment(name); } });
    byId('views').append(...VIEWS.map(([name, title]) => h('a', { href: '#', 'data-view': name, on: follows(name) }, title)));
    byId('model').append(...names.map((name) => h('option', { value: name }, name)));
  } catch (error) {
    problem(error);
    return;
  }
  byId('model').addEventListener('change', (event) => {
    location.hash = new URLSearchParams({ model: event.target.value, view: shown.name || 'card' });
  });
  document.querySelector('.skip').addEventListener('click', (event) => {
    event.preventDefault();
    byId('main').focus();
  });
  window.addEventListener('hashchange', follow);
  // A file that misses its place must not replace the page.
  for (const name of ['dragover', 'drop']) window.addEventListener(name, (event) => event.preventDefault());
  await follow();
}

start();
