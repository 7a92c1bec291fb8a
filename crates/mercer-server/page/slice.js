// Where it is hard: a plane through the row, along two columns or two principal directions, with maps of labels, cost and certainty.

import { count, field, h, number, percent } from './dom.js';
import { columnName } from './rows.js';
import { classColour } from './draw.js';
import { certaintyColour, CERTAINTIES, costLegend, legend, paintMap, PIXELS, rgb, shade } from './maps.js';

/** Values of a request, at most. */
const VALUES = 1 << 17;
const SIZES = [24, 48, 96];
/** Columns beyond this have no directions: they would take too long to find. */
const DIRECTED = 1000;

/** Columns that differ most over the known rows stand first: they make the better picture. */
function usefulColumns({ ranges, hasRanges, card }) {
  const order = Array.from({ length: card.columns }, (_, column) => column);
  const width = (column) => ranges[column][1] - ranges[column][0];
  return hasRanges ? order.sort((a, b) => width(b) - width(a) || a - b) : order;
}

const columnAxis = (session, column) => ({
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

/** All axes that can be chosen, by name. Directions may leave the domain of kernels that want no negative values. */
function axesOf(session) {
  const { card, sample, ranges } = session;
  const columns = usefulColumns(session).map((column) => columnAxis(session, column));
  const canLeave = /^(linear|polynomial|rbf|laplacian|sigmoid)/.test(card.kernel);
  if (sample.length < 3 || card.columns > DIRECTED || !canLeave) return columns;
  const directions = principalDirections(sample, ranges.map(([low, high]) => high - low));
  const own = directions.map((direction, number) => directionAxis(session, direction, `principal direction ${number + 1}`));
  // Single columns say little where there are many.
  return card.columns > 8 ? [...own, ...columns] : [...columns, ...own];
}

/** The plane through the row: two axes with their ranges, and the rows of a grid on it. */
class Plane {
  constructor(session, axes, size) {
    Object.assign(this, { session, axes, size, row: session.row, ranges: axes.map((axis) => axis.range()) });
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
    const { columns } = this.session.card;
    const values = new Float64Array((to - from) * columns);
    for (let at = from; at < to; at += 1) values.set(this.rowAt(at % this.size, Math.floor(at / this.size)), (at - from) * columns);
    return values;
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
    const part = Math.max(1, Math.floor(VALUES / session.card.columns));
    for (let from = 0; from < all; from += part) {
      const { label, cost, certainty } = await session.model.infer(plane.rows(from, Math.min(from + part, all)), session.card.columns);
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
  const axes = axesOf(session);
  const chooser = (place) => h('select', { on: { change: () => draw() } },
    axes.map(({ name }, number) => h('option', { value: String(number), selected: number === place }, name)));
  const [x, y] = [chooser(0), chooser(1)];
  const size = h('select', { on: { change: () => draw() } }, SIZES.map((side) => h('option', { value: String(side), selected: side === 48 }, `${side} × ${side}`)));
  const maps = ['labels', 'costs', 'certainties'].map((what) => h('canvas', { class: 'map', role: 'img', id: `map-${what}`, aria: { label: `map of ${what}` } }));
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
      context.arc(PIXELS * share(0, shown.axes[0].at(session.row)), PIXELS * (1 - share(1, shown.axes[1].at(session.row))), 9, 0, 2 * Math.PI);
      context.stroke();
    }
  };
  const ask = mapper(session, show);
  const draw = async () => {
    try {
      session.problem(null);
      plane = new Plane(session, [x, y].map((chosen) => axes[Number(chosen.value)]), Number(size.value));
      await ask(plane);
    } catch (error) {
      session.problem(error);
    }
  };
  for (const canvas of maps) {
    canvas.addEventListener('click', (event) => {
      const box = canvas.getBoundingClientRect();
      const place = (share) => Math.min(Math.floor(share * plane.size), plane.size - 1);
      const row = plane.rowAt(place((event.clientX - box.left) / box.width), plane.size - 1 - place((event.clientY - box.top) / box.height));
      session.setRow(row, 'map');
    });
  }
  into.append(
    h('p', { class: 'lead' }, 'A plane through the row, along two columns or two directions in which rows differ most. Work is spent near the border between labels; far from it a query is easy. A click takes that point as the row of Play.'),
    h('section', {}, h('div', { class: 'row' }, field('To the right', x), field('Upwards', y), field('Points', size)), places, said),
    h('div', { class: 'maps' },
      h('section', {}, h('h3', {}, 'Labels'), maps[0], ofLabels),
      h('section', {}, h('h3', {}, 'Cost'), maps[1], ofCosts),
      h('section', {}, h('h3', {}, 'Certainty'), maps[2], ofCertainties)));
  draw();
  return session.onRow(draw);
}
