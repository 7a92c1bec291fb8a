// Train: points in the plane, a machine that is trained again with every change, what its answers cost, and a smaller machine beside it.

import { count, dropZone, field, h, number, percent, plural, roomFor } from './dom.js';
import { json, latestWins, request } from './api.js';
import { bars, classColour, svg } from './draw.js';
import { choosable, costLegend, paintMap, PIXELS, shade } from './maps.js';
import { plot } from './plot.js';

/** Points along a side of the maps. */
const SIZE = 72;
const MOST_CLASSES = 6;
const NAMES = 'ABCDEF';
const KERNELS = [['rbf', 'RBF (Gaussian)'], ['laplacian', 'Laplacian'], ['polynomial', 'Polynomial'], ['linear', 'Linear']];
const PLANS = [
  ['auto', 'the cheapest of some'], ['cascade(compressed(k=10), exact)', 'compressed, then exact'], ['cascade(anytime(chunk=2), exact)', 'anytime, then exact'],
  ['cascade(low_precision, exact)', 'low precision, then exact'], ['exact', 'exact only'],
];
const ROWS = [60, 150, 400, 1000];

const call = (name, body, signal) => json(`train/${name}`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body ?? {}), signal });
/** Settings outlive the view: one comes back from another view and finds them. */
const chosen = { kernel: 'rbf', C: 0, gamma: 0, degree: 3, plan: 'auto', size: 10, isComparing: false };

/** A slider whose value is a power of ten, or a whole number. */
function slider(name, text, range, show, change) {
  const [min, max, step] = range;
  const input = h('input', { type: 'range', min, max, step, value: chosen[name], aria: { label: text } });
  const said = h('output', {}, show(chosen[name]));
  input.addEventListener('input', () => {
    chosen[name] = input.valueAsNumber;
    said.textContent = show(chosen[name]);
    change();
  });
  return { input, element: h('div', { class: 'slider' }, h('span', { aria: { hidden: 'true' } }, text), input, said) };
}
const power = (exponent) => number(Number((10 ** exponent).toPrecision(3)));

function kernelText() {
  const gamma = Number((10 ** chosen.gamma).toPrecision(3));
  return {
    rbf: `rbf(gamma=${gamma})`, laplacian: `laplacian(gamma=${gamma})`, linear: 'linear', polynomial: `polynomial(degree=${chosen.degree}, gamma=${gamma}, coef0=1)`,
  }[chosen.kernel];
}

const ring = (isBounded) => svg('svg', { viewBox: '0 0 16 16', 'aria-hidden': 'true' },
  svg('circle', { cx: 8, cy: 8, r: 6.5, fill: 'none', stroke: 'currentColor', 'stroke-width': 1.5 }), isBounded ? svg('circle', { cx: 8, cy: 8, r: 2, fill: 'currentColor' }) : null);
const stroke = (dashes, colour = 'currentColor', width = 2.4) => svg('svg', { viewBox: '0 0 16 16', 'aria-hidden': 'true' },
  svg('line', { x1: 0, x2: 16, y1: 8, y2: 8, stroke: colour, 'stroke-width': width, 'stroke-dasharray': dashes }));
const cross = () => svg('svg', { viewBox: '0 0 16 16', 'aria-hidden': 'true' }, svg('path', { d: 'M2 2L14 14M2 14L14 2', stroke: 'var(--draw-mark)', 'stroke-width': 2.5 }));

function download(bytes, name) {
  const address = URL.createObjectURL(new Blob([bytes], { type: 'application/octet-stream' }));
  const link = h('a', { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10e3);
}

export function trainView(session, into) {
  const data = { points: [], classes: ['A', 'B'], names: ['x', 'y'], ranges: [[0, 1], [0, 1]], isChanged: false, isTable: false };
  let [trained, map, reduced, small] = [null, null, null, null];
  let current = 0;
  let isLeft = false;
  let isErasing = false;
  let undone = [];
  /** Asks for other points; done before the next training. */
  let load = null;
  /** Whether other points are asked for: those that are shown take no changes any more. */
  let isLoading = false;
  /** Ends the wait for a training that goes on: something changed. */
  let goingOn = null;
  /** What is said of the points that are shown. */
  let sentence = '';

  const said = h('p', { role: 'status', id: 'trained' });
  const facts = h('dl', { id: 'facts' });
  const [stages, planText, ofCosts, ofReduced, classRow, tableRow, source] = ['div', 'p', 'div', 'div', 'div', 'div', 'p'].map((tag) => h(tag, {}));
  planText.id = 'plan';
  const costs = h('canvas', { class: 'map', id: 'plane-costs', width: PIXELS, height: PIXELS, aria: { label: 'map of the cost of answers in the plane' } });
  const rowText = h('p', {}, h('small', {}, 'A click on this map takes that point as the row of the other views; so do the arrow keys.'));

  const drawPlane = () => plane.show({
    points: data.points, ranges: data.ranges, map, small, vectors: reduced?.vectors ?? [], isErasing,
    colourOf: (label) => classColour(data.classes.indexOf(map.classes[label])),
    isTwoClasses: map?.classes.length === 2, supports: new Set(trained?.supports), bounded: new Set(trained?.bounded),
  });
  /** Other points; numbers of support vectors hold on only where points were added at the end. */
  const change = (points, isAddition = false) => {
    if (isLoading) return;
    undone = [...undone.slice(-50), data.points];
    data.points = points;
    data.isChanged = true;
    if (!isAddition) trained = null;
    drawPlane();
    fit();
  };
  const plane = plot({
    add: (place) => change([...data.points, [...place.map((value) => Number(value.toPrecision(6))), current]], true),
    remove: (at) => change(data.points.filter((_, other) => other !== at)),
  });

  /** The maps of a machine, and a smaller one if it is asked for. */
  const withMaps = async (fitted, start) => {
    const area = { x: data.ranges[0], y: data.ranges[1], size: SIZE };
    const maps = { ...(await call('map', { ...area, of: 'machine' })), size: SIZE, classes: fitted.classes };
    const found = { fitted, maps, milliseconds: performance.now() - start };
    if (!chosen.isComparing) return found;
    const size = Math.min(Math.max(chosen.size, 1), fitted.machine_supports);
    found.reduced = await call('compress', { size });
    found.small = { ...(await call('map', { ...area, of: 'compressed' })), size: SIZE };
    return found;
  };
  /** One more part of a training that ended early. A change aborts it; the server ends it when the change comes. */
  const goOn = async () => {
    goingOn = new AbortController();
    const fitted = await call('continue', {}, goingOn.signal).finally(() => { goingOn = null; });
    return { ...(await withMaps(fitted)), milliseconds: first };
  };
  /** Milliseconds until the first machine of the last change was drawn. */
  let first = 0;
  /** One training with its maps. */
  const work = async (what) => {
    if (what === 'continue') return goOn();
    if (load) {
      const ask = load;
      load = null;
      try {
        take(await ask());
      } finally {
        isLoading = load !== null;
        say(sentence);
      }
    }
    const settings = { kernel: kernelText(), C: Number((10 ** chosen.C).toPrecision(3)), plan: chosen.plan };
    const isNew = data.isChanged;
    if (isNew) Object.assign(settings, { points: data.points, classes: data.classes });
    data.isChanged = false;
    session.isStale = true;
    const start = performance.now();
    const fitted = await call('fit', settings).catch((error) => {
      // The server may not have these points: they are sent again.
      data.isChanged ||= isNew;
      throw error;
    });
    if (fitted.message) return { message: fitted.message };
    const found = await withMaps(fitted, start);
    first = found.milliseconds;
    return found;
  };
  const show = (found) => {
    // Newer points are on their way.
    if (isLeft || data.isChanged || load) return;
    if (found.message) {
      [trained, map, reduced, small] = [null, null, null, null];
      say(found.message);
      drawPlane();
      return;
    }
    [trained, map, reduced, small] = [found.fitted, found.maps, found.reduced ?? null, found.small ?? null];
    session.problem(null);
    drawPlane();
    showFacts(found.milliseconds);
    showCosts();
    showReduced();
    // Something else that was asked for meanwhile comes first.
    if (trained.is_open) session.changing = run('continue', true);
  };
  const run = latestWins(work, show, (error) => { if (!isLeft && error.name !== 'AbortError') session.problem(error); });
  const fit = () => {
    goingOn?.abort();
    session.changing = run('fit');
  };
  const say = (words) => {
    sentence = words;
    said.textContent = isLoading ? 'Points are on their way …' : sentence;
  };

  const showFacts = (milliseconds) => {
    const all = data.points.length;
    say(`${count(trained.supports.length)} of ${plural(all, 'point')} are support vectors, ${count(trained.bounded.length)} of them bounded.${trained.is_open ? ' This is the best machine so far: its training goes on.' : ''}`);
    const rows = [
      ['Kernel', h('code', {}, trained.kernel)],
      ['Points', count(all)],
      ['Training', `${number(trained.training_ms)} ms, ${trained.warm ? 'from the machine before' : 'from nothing'}, ${plural(trained.iterations, 'step')}${trained.converged ? '' : trained.is_open ? ', goes on' : ', stopped early'}`],
      ['Plan fitted in', `${number(trained.plan_ms)} ms`],
      ['With the maps, until it is drawn', `${Math.round(milliseconds)} ms`],
    ];
    facts.replaceChildren(...rows.flatMap(([name, value]) => [h('dt', {}, name), h('dd', {}, value)]));
  };
  const showCosts = () => {
    const exact = trained.exact_multiply_adds;
    const [least, most] = [map.costs.reduce((a, b) => Math.min(a, b)), map.costs.reduce((a, b) => Math.max(a, b))];
    paintMap(costs, map.size, (at) => shade(most > least ? (map.costs[at] - least) / (most - least) : 0.5));
    ofCosts.replaceChildren(costLegend(least, most, exact));
    const names = [...trained.stages, 'exact'];
    const cells = map.size ** 2;
    planText.replaceChildren('Plan: ', h('code', {}, trained.plan), `. On average an answer costs ${number(map.mean_cost)} multiply-adds, ${percent(map.mean_cost / exact)} of the exact evaluation (${count(exact)}).`);
    stages.replaceChildren(bars({
      width: roomFor(480), most: 1, label: 'share of the plane that each stage settles',
      items: names.map((name, at) => ({ name, value: (map.settled[at] ?? 0) / cells, text: percent((map.settled[at] ?? 0) / cells), colour: classColour(at + 4) })),
    }));
  };
  const showReduced = () => {
    sizeSlider.input.max = Math.max(trained.machine_supports, 1);
    saveSmall.disabled = !reduced;
    if (!reduced) {
      ofReduced.replaceChildren(h('p', {}, h('small', {}, `The machine has ${plural(trained.machine_supports, 'vector')}. Compress it to see how few are enough.`)));
      return;
    }
    const bounded = /^(rbf|laplacian)/.test(trained.kernel);
    ofReduced.replaceChildren(
      h('p', { role: 'status', id: 'compressed' }, `${plural(reduced.before, 'vector')} compressed to ${count(reduced.after)}. The distance of the two machines is proved: at most ${number(reduced.distance)} `
        + `(${percent(reduced.relative)} of the length of the machine)${bounded ? `, so no score anywhere in the plane changes by more than ${number(reduced.distance)}` : ''}.`),
      h('p', {}, `${count(reduced.disagreements)} of ${plural(data.points.length, 'point')} get another label`,
        reduced.certified === null ? '.' : `; of ${percent(reduced.certified)} of the points it is proved that they keep theirs.`, ` Found in ${number(reduced.milliseconds)} ms by ${reduced.method}.`),
      h('ul', { class: 'legend' }, h('li', {}, stroke('2 3', 'var(--draw-mark)'), 'border of the small machine'), h('li', {}, cross(), 'its vectors')));
  };

  const classButtons = () => {
    const one = (name, place) => h('label', { class: 'inline class' },
      h('input', { type: 'radio', name: 'class', value: String(place), checked: place === current && !isErasing, on: { change: () => { current = place; isErasing = false; drawPlane(); } } }),
      h('span', {}, swatch(classColour(place)), `class ${name}`));
    const eraser = h('label', { class: 'inline class' }, h('input', { type: 'radio', name: 'class', value: 'erase', checked: isErasing, on: { change: () => { isErasing = true; drawPlane(); } } }), h('span', {}, 'erase'));
    const more = h('button', { type: 'button', disabled: data.classes.length >= MOST_CLASSES, on: { click: () => {
      const name = [...NAMES].find((letter) => !data.classes.includes(letter)) ?? `class ${data.classes.length + 1}`;
      data.classes = [...data.classes, name];
      current = data.classes.length - 1;
      isErasing = false;
      classButtons();
    } } }, 'One more class');
    classRow.className = 'row';
    classRow.replaceChildren(...data.classes.map(one), eraser, more);
  };
  const swatch = (colour) => svg('svg', { viewBox: '0 0 16 16', 'aria-hidden': 'true', class: 'swatch' }, svg('rect', { width: 16, height: 16, rx: 3, fill: colour }));

  /** Points that the server gives: an example, a table, other columns. */
  const take = (state) => {
    if (isLeft) return;
    Object.assign(data, { points: state.points, classes: state.classes, names: state.names, ranges: state.ranges, isChanged: false, isTable: state.table?.name === state.source });
    [trained, map, reduced, small, undone] = [null, null, null, null, []];
    sentence = '';
    current = Math.min(current, data.classes.length - 1);
    session.problem(null);
    const examples = state.examples.includes(state.source) ? state.examples : ['', ...state.examples];
    example.replaceChildren(...examples.map((name) => h('option', { value: name, selected: name === state.source || !name }, name || 'none')));
    classButtons();
    tables(state);
    source.textContent = `${data.isTable ? `${state.source}: ${plural(state.table.rows, 'row')}` : `Example ${state.source}: ${plural(state.points.length, 'point')}`}. To the right: ${data.names[0]}, from ${number(data.ranges[0][0])} to ${number(data.ranges[0][1])}. Upwards: ${data.names[1]}, from ${number(data.ranges[1][0])} to ${number(data.ranges[1][1])}.`;
    drawPlane();
  };
  /** Takes other points, and trains on them. */
  const replaceBy = (ask) => {
    load = ask;
    isLoading = true;
    say(sentence);
    fit();
  };
  const give = (name, body) => replaceBy(() => call(name, body));
  const tables = ({ table, names }) => {
    if (!table) { tableRow.replaceChildren(); return; }
    const choose = (name) => h('select', { on: { change: () => give('axes', { x: x.value, y: y.value }) } }, table.axes.map((axis) => h('option', { value: axis, selected: axis === name }, axis)));
    const [x, y] = [choose(names[0]), choose(names[1])];
    tableRow.className = 'row';
    tableRow.replaceChildren(field('To the right', x), field('Upwards', y));
  };
  const upload = (file) => {
    replaceBy(() => json(`train/table?${new URLSearchParams({ name: file.name, label: labelColumn.value })}`, { method: 'POST', body: file }));
  };

  const labelColumn = h('input', { type: 'text', placeholder: 'guessed' });
  const example = h('select', {});
  const rows = h('select', {}, ROWS.map((size) => h('option', { value: String(size), selected: size === 400 }, `${count(size)} points`)));
  const takeExample = () => example.value && give('example', { name: example.value, rows: Number(rows.value) });
  for (const control of [example, rows]) control.addEventListener('change', takeExample);

  const kernel = h('select', { on: { change: () => { chosen.kernel = kernel.value; sliders(); fit(); } } }, KERNELS.map(([name, text]) => h('option', { value: name, selected: name === chosen.kernel }, text)));
  const plan = h('select', { on: { change: () => { chosen.plan = plan.value; fit(); } } }, PLANS.map(([name, text]) => h('option', { value: name, selected: name === chosen.plan }, text)));
  const [c, gamma, degree] = [
    slider('C', 'C', [-2, 4, 0.05], power, fit), slider('gamma', 'gamma', [-2, 2.5, 0.05], power, fit), slider('degree', 'degree', [2, 8, 1], String, fit),
  ];
  const sliders = () => {
    gamma.element.hidden = chosen.kernel === 'linear';
    degree.element.hidden = chosen.kernel !== 'polynomial';
  };
  const compare = h('input', { type: 'checkbox', checked: chosen.isComparing, on: { change: () => { chosen.isComparing = compare.checked; fit(); } } });
  const sizeSlider = slider('size', 'Vectors', [1, 100, 1], count, () => { chosen.isComparing = true; compare.checked = true; fit(); });
  const save = (what) => async () => {
    try {
      const reply = await request('train/save', { method: 'POST', body: JSON.stringify({ what }) });
      download(await reply.arrayBuffer(), what === 'machine' ? 'play.mercer' : 'compressed.mercer');
    } catch (error) {
      session.problem(error);
    }
  };
  const saveSmall = h('button', { type: 'button', disabled: true, on: { click: save('compressed') } }, 'Save the small one');
  let place = [0.5, 0.5];
  choosable(costs, () => place, (shares) => {
    place = shares;
    const row = shares.map((share, axis) => Number((data.ranges[axis][0] + share * (data.ranges[axis][1] - data.ranges[axis][0])).toPrecision(6)));
    session.setRow(row, 'map');
    rowText.replaceChildren(`The row is ${data.names.map((name, axis) => `${name} ${number(row[axis])}`).join(', ')}: see it in Play, or watch its range close.`);
  });
  const undo = h('button', { type: 'button', on: { click: () => { const last = undone.pop(); if (last) { change(last); undone.pop(); } } } }, 'Undo');
  const clear = h('button', { type: 'button', on: { click: () => change([]) } }, 'Clear');

  into.append(
    h('p', { class: 'lead' }, 'Click to add points of a class. After every change a machine is trained: it draws the border between the classes and keeps the points that the border rests on, the support vectors. All other points could be left out, and nothing would change.'),
    h('div', { class: 'columns' },
      h('div', {}, h('section', {}, h('h3', {}, 'Points and border'), classRow, plane.canvas,
        h('ul', { class: 'legend' }, h('li', {}, stroke('none'), 'border'), h('li', {}, stroke('4 3', 'currentColor', 1.4), 'margin (score 1)'), h('li', {}, ring(false), 'support vector'), h('li', {}, ring(true), 'bounded: within the margin, or wrong')),
        said, h('div', { class: 'row' }, undo, clear), h('p', {}, h('small', {}, source))),
        h('section', {}, h('h3', {}, 'Other points'),
          h('div', { class: 'row' }, field('Example', example), field('How many', rows)),
          dropZone('Or drop a table of your own: CSV, LIBSVM, Parquet; up to 20,000 rows', upload), field('Its column of classes', labelColumn, { hint: 'by name or number; leave it empty to have it guessed' }), tableRow)),
      h('div', {},
        h('section', {}, h('h3', {}, 'Machine'),
          h('div', { class: 'row' }, field('Kernel', kernel), field('Plan of answers', plan)), c.element, gamma.element, degree.element,
          h('p', {}, h('small', {}, 'A large C wants every point right; a small one wants a wide margin. A large gamma makes similarity end near a point, so that the border bends more.')),
          facts),
        h('section', {}, h('h3', {}, 'Compress'),
          h('label', { class: 'inline' }, compare, h('span', {}, 'Show a machine with fewer vectors')), sizeSlider.element, ofReduced),
        h('section', {}, h('h3', {}, 'Save'),
          h('p', {}, 'A file for mercer predict, tune or serve. It takes the two columns of the plane.'),
          h('div', { class: 'row' }, h('button', { type: 'button', class: 'main', on: { click: save('machine') } }, 'Save the machine'), saveSmall)))),
    h('div', { class: 'columns second' },
      h('section', {}, h('h3', {}, 'Cost of each answer'), costs, ofCosts, rowText),
      h('div', {},
        h('section', {}, h('h3', {}, 'Plan and its stages'), planText, stages, h('p', {}, h('small', {}, 'Each stage proves what it can, and passes on the rest. Far from the border a label is proved with little work: such queries are easy.'))))));
  sliders();
  classButtons();
  give('state');
  return () => {
    isLeft = true;
    goingOn?.abort();
  };
}
