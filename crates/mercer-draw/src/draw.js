// Drawings as SVG. This module needs nothing but a document: reports use it without the page. Colours are variables with a
// default, so that a page may set them.

const SPACE = 'http://www.w3.org/2000/svg';
export const COLOURS = {
  ink: 'var(--draw-ink, #222)',
  faint: 'var(--draw-faint, #888)',
  proof: 'var(--draw-proof, #0b62c4)',
  estimate: 'var(--draw-estimate, #b35900)',
  mark: 'var(--draw-mark, #b3261e)',
};
/** Colours of classes (Okabe and Ito, then four more), told apart by most people. */
const CLASSES = ['#0072b2', '#e69f00', '#009e73', '#d55e00', '#56b4e9', '#cc79a7', '#f0e442', '#7f7f7f', '#8c564b', '#6a3d9a'];
export const classColour = (place) => CLASSES[place % CLASSES.length];

/** An SVG element. */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function canvas(width, height, label) {
  return svg('svg', {
    viewBox: `0 0 ${width} ${height}`, width, role: 'img', 'aria-label': label, 'font-size': 12,
    'font-family': 'inherit', fill: COLOURS.ink, preserveAspectRatio: 'xMidYMin meet',
  });
}

const text = (x, y, words, more = {}) => svg('text', { x, y, ...more }, words);
const line = (x1, y1, x2, y2, more = {}) => svg('line', { x1, y1, x2, y2, stroke: COLOURS.ink, ...more });

/** Round numbers that divide a range into about so many parts. */
export function ticks(low, high, wanted = 5) {
  const span = high - low;
  if (!(span > 0) || !Number.isFinite(span)) return [low];
  const power = 10 ** Math.floor(Math.log10(span / wanted));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => span / size <= wanted);
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high; at += 1) found.push(Number((at * step).toPrecision(12)));
  return found;
}

const short = (value) => {
  const size = Math.abs(value);
  return (size !== 0 && (size < 1e-3 || size >= 1e5) ? value.toExponential(0) : String(value)).replace('-', '−');
};

/** Where a score lies on a line, kept within it. */
function scale(low, high, from, to) {
  const [least, most] = [Math.min(from, to), Math.max(from, to)];
  return (value) => Math.min(Math.max(from + ((value - low) / (high - low)) * (to - from), least), most);
}

/** The least range that holds all bounded ones and perhaps 0, with some room. */
export function hull(ranges, withZero) {
  const ends = ranges.flatMap(({ low, high }) => [low, high]).filter((end) => Math.abs(end) < 1e300);
  if (withZero) ends.push(0);
  if (ends.length === 0) return [-1, 1];
  const [low, high] = [ends.reduce((a, b) => Math.min(a, b)), ends.reduce((a, b) => Math.max(a, b))];
  const room = (high - low || Math.abs(high) || 1) * 0.06;
  return [low - room, high + room];
}

function axis(into, at, y, place, sides) {
  const [low, high] = at;
  into.append(line(place(low), y, place(high), y, { stroke: COLOURS.faint }));
  // As many ticks as have room for their numbers, none of which is cut off.
  const [start, end] = [place(low), place(high)];
  const longest = (found) => Math.max(...found.map((tick) => 7 * short(tick).length));
  let found = ticks(low, high);
  for (let wanted = 4; wanted > 0 && longest(found) * found.length > 0.8 * (end - start); wanted -= 1) found = ticks(low, high, wanted);
  for (const tick of found) {
    const half = 3.5 * short(tick).length;
    into.append(line(place(tick), y, place(tick), y + 4, { stroke: COLOURS.faint }));
    into.append(text(Math.min(Math.max(place(tick), start - 8 + half), end + 8 - half), y + 17, short(tick), { 'text-anchor': 'middle' }));
  }
  if (sides && low < 0 && high > 0) {
    // The names stand beside 0, on the side of their class, where there is room for them.
    const zero = place(0);
    const [left, right] = [`← ${sides[0]}`, `${sides[1]} →`];
    if (zero - place(low) > 9 * left.length) into.append(text(zero - 6, y + 34, left, { 'text-anchor': 'end' }));
    if (place(high) - zero > 9 * right.length) into.append(text(zero + 6, y + 34, right));
  }
}

/** One range on the line of scores. `sides` names what lies below and above 0. */
export function scoreLine({ low, high, certainty, sides, width = 560 }) {
  const isProved = certainty === 'exact' || certainty === 'certified';
  const height = sides ? 76 : 58;
  const out = canvas(width, height, `the score lies between ${short(low)} and ${short(high)}`);
  const at = hull([{ low, high }], Boolean(sides));
  const place = scale(...at, 12, width - 12);
  const colour = isProved ? COLOURS.proof : COLOURS.estimate;
  axis(out, at, 32, place, sides);
  if (sides) out.append(line(place(0), 6, place(0), 36, { stroke: COLOURS.mark, 'stroke-width': 1.5 }));
  const [x1, x2] = [place(low), place(high)];
  if (x2 - x1 < 6) out.append(svg('circle', { cx: (x1 + x2) / 2, cy: 20, r: 6, fill: colour }));
  else out.append(line(x1, 20, x2, 20, { stroke: colour, 'stroke-width': 10, ...(isProved ? {} : { 'stroke-dasharray': '6 4' }) }));
  return out;
}

/** At most so many items, evenly chosen, first and last among them. */
function thinned(items, most) {
  if (items.length <= most) return items;
  return Array.from({ length: most }, (_, at) => items[Math.round((at * (items.length - 1)) / (most - 1))]);
}

/**
 * Ranges of one score, step after step from top to bottom. A step has `low`, `high`, `isEstimate`, `moment` and perhaps `isChange`.
 * What comes after the moment `now` is faint.
 */
export function closingRange({ steps, now, sides, settled, isZoomed, width = 640, height: most = 340 }) {
  const height = Math.min(26 * steps.length + (sides ? 60 : 44), most);
  const shown = steps.filter((step) => step.moment <= now);
  const current = shown[shown.length - 1] ?? steps[0];
  const out = canvas(width, height, `step ${shown.length} of ${steps.length}: between ${short(current.low)} and ${short(current.high)}`);
  const at = hull(isZoomed ? [steps[steps.length - 1]] : steps, Boolean(sides));
  const place = scale(...at, 12, width - 12);
  const bottom = height - (sides ? 44 : 28);
  const pitch = Math.min((bottom - 16) / steps.length, 26);
  const level = new Map(steps.map((step, number) => [step, 12 + (number + 0.5) * pitch]));
  axis(out, at, bottom, place, sides);
  if (sides) out.append(line(place(0), 4, place(0), bottom + 4, { stroke: COLOURS.mark, 'stroke-width': 1.5 }));
  for (const step of thinned(steps, 320)) {
    const y = level.get(step);
    out.append(line(place(step.low), y, Math.max(place(step.high), place(step.low) + 2), y, {
      stroke: step.isEstimate ? COLOURS.estimate : COLOURS.proof,
      'stroke-width': Math.max(Math.min(pitch * 0.6, 9), 1.2),
      'stroke-dasharray': step.isEstimate ? '6 4' : 'none',
      opacity: step.moment > now ? 0.13 : step === current ? 1 : 0.5,
      class: step.isEstimate ? 'estimate' : 'proof',
    }));
  }
  const y = level.get(current);
  for (const end of [current.low, current.high]) {
    out.append(line(place(end), y - 7, place(end), y + 7, { 'stroke-width': 2 }));
  }
  for (const step of steps.filter((step) => step.isChange)) {
    out.append(svg('path', {
      d: `M${place(0)} ${level.get(step) - 6}l6 6l-6 6l-6-6z`, fill: COLOURS.mark, class: 'change',
    }, svg('title', {}, 'the leading label changes here')));
  }
  if (settled) {
    const height = level.get(settled);
    out.append(line(0, height, 10, height, { stroke: COLOURS.mark, 'stroke-width': 3, class: 'settled' }));
    out.append(line(width - 10, height, width, height, { stroke: COLOURS.mark, 'stroke-width': 3 }));
    out.prepend(line(10, height, width - 10, height, { stroke: COLOURS.mark, 'stroke-opacity': 0.45, 'stroke-dasharray': '2 5' }));
  }
  return out;
}

/** Bars with their names: `[{ name, value, text, colour }]`. */
export function bars({ items, most, label, width = 560 }) {
  const left = Math.min(Math.max(...items.map((item) => item.name.length)) * 7 + 10, width * 0.42);
  const out = canvas(width, items.length * 26 + 4, label);
  const end = most ?? Math.max(...items.map((item) => item.value), 1e-300);
  const room = width - left - 112;
  const cut = (name) => (name.length * 7 > left ? `${name.slice(0, Math.floor(left / 7) - 1)}…` : name);
  items.forEach((item, number) => {
    const y = number * 26 + 4;
    const length = Math.max((Math.min(item.value / end, 1) || 0) * room, 1);
    const named = text(0, y + 15, cut(item.name));
    if (cut(item.name) !== item.name) named.append(svg('title', {}, item.name));
    out.append(named);
    out.append(svg('rect', { x: left, y: y + 2, width: length, height: 16, rx: 2, fill: item.colour ?? COLOURS.proof }));
    out.append(text(left + length + 6, y + 15, item.text ?? short(item.value)));
  });
  return out;
}

/** For each class the least and the largest number of votes that it can still get. */
export function voteRanges({ classes, most, width = 560 }) {
  const left = Math.min(Math.max(...classes.map(({ name }) => name.length)) * 8 + 12, width * 0.4);
  const out = canvas(width, classes.length * 22 + 24, 'votes of each class, least and most');
  const place = scale(0, most, left + 6, width - 12);
  classes.forEach(({ name, least, largest, isPossible, colour }, number) => {
    const y = number * 22 + 12;
    const strength = isPossible ? 1 : 0.35;
    out.append(text(0, y + 4, name, { opacity: isPossible ? 1 : 0.7 }));
    out.append(line(place(0), y, place(most), y, { stroke: COLOURS.faint, opacity: 0.3 }));
    out.append(line(place(least), y, place(largest), y, { stroke: colour, 'stroke-width': 10, opacity: strength, 'stroke-linecap': 'round' }));
  });
  const y = classes.length * 22 + 18;
  for (const tick of ticks(0, most)) out.append(text(place(tick), y, short(tick), { 'text-anchor': 'middle' }));
  return out;
}

/** One cell for each pair of classes: the colour of the winner, or a ring where the pair is open. */
export function pairGrid({ names, pairs, width = 340 }) {
  const cell = Math.min((width - 40) / names.length, 40);
  const size = cell * names.length + 34;
  const out = canvas(size, size, 'pairs of classes: decided, open, and open but without effect');
  names.forEach((name, place) => {
    const at = 34 + place * cell + cell / 2;
    const words = name.length > 4 ? `${name.slice(0, 3)}…` : name;
    out.append(text(at, 24, words, { 'text-anchor': 'middle' }), text(28, at + 4, words, { 'text-anchor': 'end' }));
  });
  for (const { first, second, winner, isOpen, matters } of pairs) {
    for (const [row, column] of [[first, second], [second, first]]) {
      const [x, y] = [34 + column * cell + 1.5, 34 + row * cell + 1.5];
      out.append(svg('rect', {
        x, y, width: cell - 3, height: cell - 3, rx: 3,
        fill: isOpen ? 'none' : classColour(winner), opacity: isOpen && !matters ? 0.6 : 1,
        stroke: isOpen ? (matters ? COLOURS.mark : COLOURS.faint) : 'none', 'stroke-width': 2,
        ...(isOpen ? { 'stroke-dasharray': '3 3' } : {}),
      }, svg('title', {}, `${names[first]} or ${names[second]}: ${isOpen ? 'open' : names[winner]}`)));
    }
  }
  return out;
}

/** Lines over time: `series` of `{ name, values, colour }`, all of the same length. */
export function timeline({ series, label, least = 0, width = 560, height = 120 }) {
  const all = series.flatMap(({ values }) => values).filter(Number.isFinite);
  // A line at the bottom is better than one at the top where nothing happens.
  const high = all.reduce((a, b) => Math.max(a, b), least) || 1;
  const out = canvas(width, height, label);
  const place = scale(least, high, height - 10, 10);
  for (const tick of ticks(least, high, 3)) {
    out.append(line(44, place(tick), width, place(tick), { stroke: COLOURS.faint, opacity: 0.35 }));
    out.append(text(40, place(tick) + 4, short(tick), { 'text-anchor': 'end' }));
  }
  for (const { values, colour, name } of series) {
    const step = (width - 48) / Math.max(values.length - 1, 1);
    const points = values.map((value, at) => [48 + at * step, place(value)]).filter(([, y]) => Number.isFinite(y));
    out.append(svg('polyline', {
      points: points.map((point) => point.map((part) => part.toFixed(1)).join(',')).join(' '), fill: 'none', stroke: colour ?? COLOURS.proof,
      'stroke-width': 2,
    }, svg('title', {}, name)));
  }
  return out;
}

/**
 * The line on which a field has some value, as the text of a path. The field is a grid of `size` by `size` points, row after row from
 * the bottom; the path is in pixels of a square of `side`, with the points in the middles of their cells.
 */
export function contour(field, size, level, side) {
  const unit = side / size;
  const parts = [];
  // Where the level lies between two neighbours, as a share of the way.
  const between = (a, b) => (level - a) / (b - a);
  for (let y = 0; y + 1 < size; y += 1) {
    for (let x = 0; x + 1 < size; x += 1) {
      const at = y * size + x;
      const corners = [field[at], field[at + 1], field[at + size + 1], field[at + size]];
      const [a, b, c, d] = corners;
      const crossed = [];
      if (a < level !== b < level) crossed.push([x + between(a, b), y]);
      if (b < level !== c < level) crossed.push([x + 1, y + between(b, c)]);
      if (c < level !== d < level) crossed.push([x + 1 - between(c, d), y + 1]);
      if (d < level !== a < level) crossed.push([x, y + 1 - between(d, a)]);
      // Four crossings are two lines; which two says the middle of the cell.
      if (crossed.length === 4 && (a + b + c + d) / 4 < level === a < level) crossed.push(crossed.shift());
      for (let part = 0; part + 1 < crossed.length; part += 2) {
        const ends = crossed.slice(part, part + 2).map(([right, up]) => `${((right + 0.5) * unit).toFixed(1)} ${(side - (up + 0.5) * unit).toFixed(1)}`);
        parts.push(`M${ends.join('L')}`);
      }
    }
  }
  return parts.join('');
}

/** Round numbers on a logarithmic axis: powers of ten, with 2 and 5 between them where there are few. */
function logTicks(low, high) {
  const of = (steps) => {
    const found = [];
    for (let power = Math.floor(low); power <= Math.ceil(high); power += 1) {
      for (const step of steps) if (power + Math.log10(step) >= low && power + Math.log10(step) <= high) found.push(step * 10 ** power);
    }
    return found;
  };
  const powers = of([1]);
  return powers.length >= 3 ? powers : of([1, 2, 5]);
}

/** A number of an axis, as people write it. */
const unitText = (value) => {
  const [size, unit] = [[1e9, 'G'], [1e6, 'M'], [1e3, 'k']].find(([least]) => value >= least) ?? [1, ''];
  return value < 1e-2 ? value.toExponential(0) : `${Number((value / size).toPrecision(3))}${unit}`;
};

/** A logarithmic axis over some values; what has no logarithm stands at its start. */
function logAxis(values, from, to) {
  const known = values.filter((value) => value > 0 && Number.isFinite(value)).map(Math.log10);
  let [low, high] = known.length ? [known.reduce((a, b) => Math.min(a, b)), known.reduce((a, b) => Math.max(a, b))] : [0, 1];
  // At least two round numbers are on the axis, also where all values are the same.
  const more = Math.max(0.05 * (high - low), 0.4 - (high - low) / 2);
  [low, high] = [low - more, high + more];
  const place = scale(low, high, from, to);
  return { ticks: logTicks(low, high), at: (value) => place(value > 0 ? Math.log10(value) : low) };
}

/** Points over two logarithmic axes: `series` of `{ name, points: [[x, y]], isLine }`, with their names below. */
export function scatter({ series, x: xName, y: yName, label, width = 400 }) {
  const all = series.flatMap(({ points }) => points);
  const [bottom, top] = [230, 24];
  const out = canvas(width, bottom + 40 + 18 * series.length, label);
  const [x, y] = [logAxis(all.map(([value]) => value), 50, width - 10), logAxis(all.map(([, value]) => value), bottom, top)];
  for (const tick of x.ticks) {
    out.append(line(x.at(tick), top, x.at(tick), bottom, { stroke: COLOURS.faint, opacity: 0.35 }));
    out.append(text(x.at(tick), bottom + 14, unitText(tick), { 'text-anchor': 'middle' }));
  }
  for (const tick of y.ticks) {
    out.append(line(50, y.at(tick), width - 10, y.at(tick), { stroke: COLOURS.faint, opacity: 0.35 }));
    out.append(text(46, y.at(tick) + 4, unitText(tick), { 'text-anchor': 'end' }));
  }
  out.append(text(width - 10, bottom + 30, xName, { 'text-anchor': 'end' }), text(4, 14, yName));
  series.forEach(({ name, points, isLine }, number) => {
    const colour = classColour(number);
    const places = points.map(([a, b]) => [x.at(a), y.at(b)]);
    if (isLine) out.append(svg('polyline', { points: places.map((place) => place.map((part) => part.toFixed(1)).join(',')).join(' '), fill: 'none', stroke: colour, 'stroke-width': 2 }));
    const [r, opacity] = points.length > 100 ? [1.8, 0.6] : [3.5, 0.9];
    const group = svg('g', { fill: colour, 'fill-opacity': opacity });
    for (const [cx, cy] of places) group.append(svg('circle', { cx: cx.toFixed(1), cy: cy.toFixed(1), r }));
    const below = bottom + 50 + 18 * number;
    const words = name.length > width / 7 ? `${name.slice(0, Math.floor(width / 7) - 1)}…` : name;
    out.append(group, svg('circle', { cx: 10, cy: below - 4, r: 5, fill: colour }), text(22, below, words, {}));
  });
  return out;
}
