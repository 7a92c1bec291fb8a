// Drawings that only reports have. This text stands behind draw.js in the same module.

const element = (tag, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
};

/** A whole number with thin spaces between thousands. */
const grouped = (value) => String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, '\u202f');
const perCent = (share) => `${Number((100 * share).toPrecision(share < 0.1 ? 2 : 3))} %`;
const rounded = (value) => (Math.abs(value) >= 1e300 ? (value > 0 ? '∞' : '−∞') : short(Number(value.toPrecision(4))));

/**
 * The steps of one answer: the ranges of its score, each below the one before, and the cost beside that of the exact evaluation. A slider
 * walks through the steps. A step has `stage`, `low`, `high`, `cost`, `isEstimate` and `isChange`; from the step `settled` on the
 * label is proved.
 */
export function closingPath({ steps, sides, settled, exact, label, width = 420 }) {
  const all = steps.map((step, moment) => ({ ...step, moment }));
  const [ranges, costs, said] = ['div', 'div', 'p'].map((tag) => element(tag));
  said.className = 'soft';
  const slider = element('input', { type: 'range', min: 1, max: all.length, value: all.length, step: 1 });
  slider.setAttribute('aria-label', `step, ${label}`);
  const most = all.reduce((largest, { cost }) => Math.max(largest, cost), exact);
  const show = () => {
    const now = slider.valueAsNumber - 1;
    const { stage, low, high, cost, isEstimate } = all[now];
    const height = Math.min(70 + 26 * all.length, 260);
    ranges.replaceChildren(closingRange({ steps: all, now, sides, settled: all[settled], width, height }));
    costs.replaceChildren(bars({
      width, most, label: `cost so far against the exact evaluation, ${label}`,
      items: [
        { name: 'so far', value: cost, text: `${grouped(cost)}, ${perCent(cost / exact)}`, colour: COLOURS.proof },
        { name: 'exact', value: exact, text: grouped(exact), colour: COLOURS.faint },
      ],
    }));
    said.replaceChildren(`Step ${now + 1} of ${all.length}, stage ${stage}: ${isEstimate ? 'estimated' : 'proved'} between ${rounded(low)} and ${rounded(high)}.`);
  };
  slider.addEventListener('input', show);
  show();
  return element('div', { className: 'path' }, ranges, ...(all.length > 1 ? [slider] : []), said, costs);
}

/** A square picture, dark where its values are large. */
export function picture({ values, side, full, label }) {
  const out = canvas(side, side, label);
  out.setAttribute('shape-rendering', 'crispEdges');
  out.append(svg('rect', { width: side, height: side, fill: '#fff' }));
  values.forEach((value, at) => {
    const ink = Math.min(Math.max(value / full, 0), 1);
    if (ink > 0) out.append(svg('rect', { x: at % side, y: Math.floor(at / side), width: 1, height: 1, fill: '#000', 'fill-opacity': Number(ink.toFixed(3)) }));
  });
  return out;
}

/** Lines or points over two plain axes: `series` of `{ name, points: [[x, y]], isLine }`, with their names below. */
export function plot({ series, x: xName, y: yName, label, width = 400 }) {
  const points = series.flatMap((one) => one.points).filter((point) => point.every(Number.isFinite));
  const ends = (axis) => points.reduce(([low, high], point) => [Math.min(low, point[axis]), Math.max(high, point[axis])], [Infinity, -Infinity]);
  const span = (axis) => {
    const [low, high] = points.length ? ends(axis) : [0, 1];
    return low < high ? [low, high] : [low - 1, high + 1];
  };
  const [bottom, top] = [230, 24];
  const out = canvas(width, bottom + 40 + 18 * series.length, label);
  const [right, up] = [scale(...span(0), 56, width - 10), scale(...span(1), bottom, top)];
  for (const tick of ticks(...span(0))) {
    out.append(line(right(tick), top, right(tick), bottom, { stroke: COLOURS.faint, opacity: 0.35 }));
    out.append(text(right(tick), bottom + 14, short(tick), { 'text-anchor': 'middle' }));
  }
  for (const tick of ticks(...span(1))) {
    out.append(line(56, up(tick), width - 10, up(tick), { stroke: COLOURS.faint, opacity: 0.35 }));
    out.append(text(52, up(tick) + 4, short(tick), { 'text-anchor': 'end' }));
  }
  out.append(text(width - 10, bottom + 30, xName, { 'text-anchor': 'end' }), text(4, 14, yName));
  series.forEach(({ name, points: own, isLine }, number) => {
    const colour = classColour(number);
    const places = own.filter((point) => point.every(Number.isFinite)).map(([a, b]) => [right(a).toFixed(1), up(b).toFixed(1)]);
    if (isLine) out.append(svg('polyline', { points: places.map((place) => place.join(',')).join(' '), fill: 'none', stroke: colour, 'stroke-width': 2 }));
    else for (const [cx, cy] of places) out.append(svg('circle', { cx, cy, r: 2.5, fill: colour }));
    const below = bottom + 50 + 18 * number;
    out.append(svg('circle', { cx: 10, cy: below - 4, r: 5, fill: colour }), text(22, below, name));
  });
  return out;
}

/** Bars to both sides of a line at 0: `[{ name, value, text }]`, with a sentence below. */
export function signedBars({ items, x: xName, label, width = 560 }) {
  const known = items.filter(({ value }) => Number.isFinite(value));
  const most = known.reduce((largest, { value }) => Math.max(largest, Math.abs(value)), 1e-300);
  const left = Math.min(Math.max(...known.map(({ name }) => name.length), 1) * 7 + 10, width * 0.4);
  const [zero, room] = [left + (width - left) / 2, (width - left) / 2 - 62];
  const out = canvas(width, 22 * known.length + 44, label);
  const bottom = 22 * known.length + 10;
  out.append(line(zero, 4, zero, bottom, { stroke: COLOURS.faint }));
  known.forEach(({ name, value, text: words }, number) => {
    const [y, length] = [8 + 22 * number, room * Math.abs(value / most)];
    const isUp = value >= 0;
    const cut = name.length * 7 > left ? `${name.slice(0, Math.floor(left / 7) - 1)}…` : name;
    out.append(text(0, y + 13, cut), svg('rect', { x: isUp ? zero : zero - length, y, width: length, height: 16, fill: isUp ? COLOURS.proof : COLOURS.estimate }));
    out.append(text(zero + (isUp ? length + 6 : -length - 6), y + 13, words, { 'text-anchor': isUp ? 'start' : 'end' }));
  });
  out.append(text(0, bottom + 24, xName));
  return out;
}
