// Where it is hard: a plane through the row, along two columns or two principal directions, with maps of labels, cost and certainty.

import { count, field, h, number, percent } from './dom.js';
import { columnName, columnsLike, nonzeros, WIDE } from './rows.js';
import { classColour } from './draw.js';
import { certaintyColour, CERTAINTIES, choosable, costLegend, legend, paintMap, PIXELS, rgb, shade } from './maps.js';

/** Values of a request, at most. */
const VALUES = 1 << 17;
const SIZES = [12, 24, 48, 96];
/** Values of a map that is drawn unasked, at most. */
const UNASKED = 1 << 22;
/** The ring around the row, with its edge: it stays within the map. */
const RING = 12;
/** Columns of a wide model that can be chosen at a time. */
const LISTED = 200;

/** Columns that differ most over the known rows stand first: they make the better picture. Of very many those that the row has. */
function usefulColumns(session, text) {
  const { ranges, hasRanges, card } = session;
  const order = columnsLike(session, text);
  if (card.columns > WIDE) return order.slice(0, LISTED);
  const width = (column) => ranges[column][1] - ranges[column][0];
  return hasRanges ? order.sort((a, b) => width(b) - width(a) || a - b) : order;
}

const columnAxis = (session, column) => ({
  column,
  name: columnName(session.input, column),
  range: () => session.ranges[column],
  at: (row) => row[column],
  move: (row, by) => { row[column] += by; },
});

/** A direction in which the known rows differ: its place is a weighted sum of columns, each measured by its range. */
function directionAxis(session, direction, name) {
  const widths = session.ranges.map(([low, high]) => high - low);
  const at = (row) => direction.reduce((sum, part, column) => sum + (part * row[column]) / widths[column], 0);
  const places = session.sample.map(at);
  return {
    name,
    range: () => [Math.min(...places, at(session.row)), Math.max(...places, at(session.row))],
    at,
    move: (row, by) => direction.forEach((part, column) => { row[column] += by * part * widths[column]; }),
  };
}

/** The two principal directions of the known rows, by power iteration. */
export function principalDirections(rows, widths) {
  const columns = widths.length;
  const means = widths.map((_, column) => rows.reduce((sum, row) => sum + row[column], 0) / rows.length);
  const centred = rows.map((row) => widths.map((width, column) => (row[column] - means[column]) / width));
  const found = [];
  for (let number = 0; number < 2; number += 1) {
    // Any start that is not orthogonal to the direction will do.
    let direction = Array.from({ length: columns }, (_, column) => 1 + ((column * 7919) % 101) / 101);
    for (let round = 0; round < 60; round += 1) {
      const next = new Array(columns).fill(0);
      for (const row of centred) {
        const share = row.reduce((sum, value, column) => sum + value * direction[column], 0);
        row.forEach((value, column) => { next[column] += share * value; });
      }
      for (const known of found) {
        const share = known.reduce((sum, part, column) => sum + part * next[column], 0);
        known.forEach((part, column) => { next[column] -= share * part; });
      }
      const length = Math.hypot(...next);
      if (!(length > 0)) return found;
      direction = next.map((part) => part / length);
    }
    found.push(direction);
  }
  return found;
}

/** The axes that can be chosen, by name. Directions may leave the domain of kernels that want no negative values, and would take too long for wide models. */
function axesOf(session, text) {
  const { card, sample, ranges } = session;
  const columns = usefulColumns(session, text).map((column) => columnAxis(session, column));
  const canLeave = /^(linear|polynomial|rbf|laplacian|sigmoid)/.test(card.kernel);
  if (sample.length < 3 || card.columns > WIDE || !canLeave) return columns;
  const directions = principalDirections(sample, ranges.map(([low, high]) => high - low));
  const own = directions.map((direction, number) => directionAxis(session, direction, `principal direction ${number + 1}`));
  // Single columns say little where there are many.
  return card.columns > 8 ? [...own, ...columns] : [...columns, ...own];
}

/** The plane through the row: two axes with their ranges, and the rows of a grid on it. */
class Plane {
  constructor(session, axes, size) {
    const { row } = session;
    Object.assign(this, { session, axes, size, row, ranges: axes.map((axis) => axis.range()) });
    if (row.length <= WIDE) return;
    /** Columns that are not 0 somewhere on the plane. */
    this.places = [...new Set([...nonzeros(row).places, ...axes.map(({ column }) => column)])].sort((a, b) => a - b);
  }

  /** Values of a row of the plane. */
  get width() {
    return this.places?.length ?? this.row.length;
  }

  value(axis, place) {
    const [low, high] = this.ranges[axis];
    return low + ((high - low) * (place + 0.5)) / this.size;
  }

  /** The row at a place of the grid. */
  rowAt(x, y) {
    const row = Float64Array.from(this.row);
    [x, y].forEach((place, number) => {
      const axis = this.axes[number];
      axis.move(row, this.value(number, place) - axis.at(this.row));
    });
    return row;
  }

  rows(from, to) {
    return Array.from({ length: to - from }, (_, number) => {
      const [x, y] = [(from + number) % this.size, Math.floor((from + number) / this.size)];
      const { places } = this;
      if (!places) return this.rowAt(x, y);
      const own = places.map((column) => this.row[column]);
      [x, y].forEach((place, axis) => { own[places.indexOf(this.axes[axis].column)] = this.value(axis, place); });
      return { columns: this.row.length, places, values: own };
    });
  }
}

/** Asks for the grid in parts; later planes end earlier ones. */
function mapper(session, show) {
  let latest = 0;
  return async (plane) => {
    latest += 1;
    const own = latest;
    const all = plane.size ** 2;
    const found = { plane, labels: [], costs: [], certainties: [] };
    const part = Math.max(1, Math.floor(VALUES / plane.width));
    for (let from = 0; from < all; from += part) {
      const { label, cost, certainty } = await session.model.infer(plane.rows(from, Math.min(from + part, all)));
      if (own !== latest) return;
      found.labels.push(...label);
      found.costs.push(...cost);
      found.certainties.push(...certainty);
      show(found, found.labels.length === all);
    }
  };
}

function labelColours(session, labels) {
  const { card } = session;
  if (card.output === 'classes') return { of: (label) => rgb(classColour(card.classes.indexOf(String(label)))), legend: card.classes.map((name, place) => [name, classColour(place)]) };
  if (card.output === 'novelty') return { of: (label) => rgb(classColour(label > 0 ? 0 : 1)), legend: [['like the training data', classColour(0)], ['new', classColour(1)]] };
  const low = labels.reduce((a, b) => Math.min(a, b), Infinity);
  const high = labels.reduce((a, b) => Math.max(a, b), -Infinity);
  return { of: (value) => shade((value - low) / (high - low || 1)), legend: [[`${number(low)}`, `rgb(${shade(0)})`], [`${number(high)}`, `rgb(${shade(1)})`]] };
}

export function sliceView(session, into) {
  const { card } = session;
  if (card.columns < 2) {
    into.append(h('p', {}, 'The model has one column: there is no plane to draw.'));
    return null;
  }
  let axes = axesOf(session, '');
  const chosen = [axes[0], axes[1]];
  const choosers = chosen.map((_, place) => h('select', { on: { change: (event) => { chosen[place] = axes[Number(event.target.value)]; draw(); } } }));
  /** Lists the axes whose name holds a text, and those that are chosen. */
  const list = (text) => {
    const found = axesOf(session, text);
    axes = [...chosen.filter(({ name }) => !found.some((axis) => axis.name === name)), ...found];
    choosers.forEach((select, place) => select.replaceChildren(...axes.map(({ name }, number) => h('option', { value: String(number), selected: name === chosen[place].name }, name))));
  };
  list('');
  const [x, y] = choosers;
  const search = h('input', { type: 'search', on: { input: () => list(search.value) } });
  const isWide = card.columns > WIDE;
  const usual = isWide ? SIZES.findLast((side) => side <= 24 && (side === SIZES[0] || side ** 2 * nonzeros(session.row).places.length <= UNASKED)) : 48;
  const size = h('select', { on: { change: () => draw() } }, SIZES.map((side) => h('option', { value: String(side), selected: side === usual }, `${side} × ${side}`)));
  const maps = ['labels', 'costs', 'certainties'].map((what) => h('canvas', { class: 'map', id: `map-${what}`, aria: { label: `map of ${what}` } }));
  const [ofLabels, ofCosts, ofCertainties, said] = ['div', 'div', 'div', 'p'].map((tag) => h(tag, tag === 'p' ? { role: 'status' } : {}));
  const places = h('p', {});
  let plane = null;

  const show = ({ plane: shown, labels, costs, certainties }, isWhole) => {
    const colours = labelColours(session, labels);
    paintMap(maps[0], shown.size, (at) => (at < labels.length ? colours.of(labels[at]) : null));
    const [least, most] = [costs.reduce((a, b) => Math.min(a, b)), costs.reduce((a, b) => Math.max(a, b))];
    paintMap(maps[1], shown.size, (at) => (at < costs.length ? shade(most > least ? (costs[at] - least) / (most - least) : 0.5) : null));
    paintMap(maps[2], shown.size, (at) => (at < certainties.length ? rgb(certaintyColour(certainties[at])) : null));
    for (const canvas of maps) markRow(canvas, shown);
    ofLabels.replaceChildren(legend(colours.legend));
    const exact = card.exact_multiply_adds;
    const [right, up] = shown.axes.map(({ name }, axis) => `${name} from ${shown.ranges[axis].map(number).join(' to ')}`);
    places.textContent = `To the right: ${right}. Upwards: ${up}. The ring is the row.`;
    ofCosts.replaceChildren(costLegend(least, most, exact));
    ofCertainties.replaceChildren(legend(CERTAINTIES.filter(([name]) => certainties.includes(name))));
    const mean = costs.reduce((a, b) => a + b, 0) / costs.length;
    const tally = [...new Set(certainties)].map((name) => `${percent(certainties.filter((other) => other === name).length / certainties.length)} ${name}`);
    said.textContent = isWhole ? `${count(costs.length)} answers: ${tally.join(', ')}; mean cost ${percent(mean / exact)} of the exact evaluation.`
      : `${count(costs.length)} of ${count(shown.size ** 2)} answers …`;
  };
  /** A ring around the row. */
  const markRow = (canvas, shown) => {
    const share = (axis, value) => Math.min(Math.max((value - shown.ranges[axis][0]) / (shown.ranges[axis][1] - shown.ranges[axis][0]), 0), 1);
    const context = canvas.getContext('2d');
    for (const [colour, width] of [['#fff', 6], ['#000', 2.5]]) {
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.beginPath();
      const [x, y] = [0, 1].map((axis) => Math.min(Math.max(PIXELS * share(axis, shown.axes[axis].at(session.row)), RING), PIXELS - RING));
      context.arc(x, PIXELS - y, RING - 3, 0, 2 * Math.PI);
      context.stroke();
    }
  };
  const ask = mapper(session, show);
  const draw = async () => {
    try {
      session.problem(null);
      plane = new Plane(session, [...chosen], Number(size.value));
      await ask(plane);
    } catch (error) {
      session.problem(error);
    }
  };
  for (const canvas of maps) {
    const share = (axis) => (plane.axes[axis].at(session.row) - plane.ranges[axis][0]) / (plane.ranges[axis][1] - plane.ranges[axis][0]);
    choosable(canvas, () => [share(0), share(1)], (shares) => {
      const [right, up] = shares.map((one) => Math.min(Math.floor(one * plane.size), plane.size - 1));
      session.setRow(plane.rowAt(right, up), 'map');
    });
  }
  into.append(
    h('p', { class: 'lead' }, 'A plane through the row, along two columns or two directions in which rows differ most. Near the border between labels a query is hard, far from it easy: a good plan spends work at the border only. Where the map of cost is dark elsewhere, the plan does not help. A click takes that point as the row of Play; so do the arrow keys.'),
    h('section', {}, h('div', { class: 'row' }, field('To the right', x), field('Upwards', y), field('Points', size), isWide ? field(`Columns by name; ${LISTED} of ${count(card.columns)} are listed, the largest values of the row first`, search) : null), places, said),
    h('div', { class: 'maps' },
      h('section', {}, h('h3', {}, 'Labels'), maps[0], ofLabels),
      h('section', {}, h('h3', {}, 'Cost'), maps[1], ofCosts),
      h('section', {}, h('h3', {}, 'Certainty'), maps[2], ofCertainties)));
  draw();
  return session.onRow(draw);
}
