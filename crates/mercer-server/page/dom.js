// Small helpers for building the page and writing numbers.

/** An element with properties and children. `on` holds listeners, `data` and `aria` attributes; texts become text nodes. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === 'on') for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === 'aria') for (const [key, text] of Object.entries(value)) element.setAttribute(`aria-${key}`, text);
    else if (name in element && typeof value !== 'string') element[name] = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Width of a drawing: its own, or what the screen has for it. */
export const roomFor = (wanted) => Math.max(Math.min(wanted, document.documentElement.clientWidth - 58), 240);

/** A form field with its label above it. */
export function field(text, control, { hint, kind = '' } = {}) {
  return h('label', { class: `field ${kind}` }, h('span', {}, text), control, hint ? h('small', {}, hint) : null);
}

/** Numbers beyond this stand for a range without a bound. */
const UNBOUNDED = 1e300;

/** A number with about four digits. */
export function number(value) {
  if (typeof value !== 'number') return String(value);
  if (Math.abs(value) > UNBOUNDED) return value > 0 ? '∞' : '−∞';
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2).replace('-', '−');
  return String(Number(value.toPrecision(4))).replace('-', '−');
}

/** Where a number lies, with as many digits as tell the ends apart. */
export function between(low, high) {
  const isBounded = Math.abs(low) < UNBOUNDED && Math.abs(high) < UNBOUNDED;
  for (let digits = 4; isBounded && digits <= 17; digits += 1) {
    const [from, to] = [low, high].map((end) => String(Number(end.toPrecision(digits))).replace(/-/g, '−'));
    if (from !== to) return `lies between ${from} and ${to}`;
  }
  return low === high ? `is ${number(low)}` : `lies between ${number(low)} and ${number(high)}`;
}

/** A whole number with thin spaces between thousands. */
export function count(value) {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, '\u202f');
}

/** A number of things. */
export const plural = (value, thing) => `${count(value)} ${thing}${value === 1 ? '' : 's'}`;

/** A share as per cent. */
export function percent(share) {
  if (!Number.isFinite(share)) return '–';
  // Not all, though it would be rounded to all.
  if (share > 0.9995 && share < 1) return 'over 99.9\u00a0%';
  return `${Number((100 * share).toPrecision(share < 0.1 ? 2 : 3))}\u00a0%`;
}

/** Bytes in a unit that people read. */
export function bytes(value) {
  const units = ['bytes', 'KB', 'MB', 'GB'];
  let unit = 0;
  for (; value >= 1000 && unit < units.length - 1; unit += 1) value /= 1000;
  return `${Number(value.toPrecision(3))} ${units[unit]}`;
}

/** A table with a head. */
export function table(head, rows, caption) {
  const cells = (kind, row) => h('tr', {}, row.map((cell) => h(kind, kind === 'th' ? { scope: 'col' } : {}, cell)));
  return h('div', { class: 'scroll', tabIndex: 0, role: 'region', aria: { label: caption } },
    h('table', {}, h('thead', {}, cells('th', head)), h('tbody', {}, rows.map((row) => cells('td', row)))));
}

/** A place where files are dropped or chosen. */
export function dropZone(text, take) {
  // Emptied by a click: the same file chosen again is a change.
  const input = h('input', { type: 'file', on: { change: () => input.files[0] && take(input.files[0]), click: () => { input.value = ''; } } });
  const zone = h('label', { class: 'drop' }, h('span', {}, text), input);
  const over = (is) => (event) => { event.preventDefault(); zone.classList.toggle('over', is); };
  zone.addEventListener('dragover', over(true));
  zone.addEventListener('dragleave', over(false));
  zone.addEventListener('drop', (event) => {
    over(false)(event);
    const [file] = event.dataTransfer.files;
    if (file) take(file);
  });
  return zone;
}
