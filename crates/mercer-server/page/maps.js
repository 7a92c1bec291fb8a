// Maps of a plane as canvases: colours of labels, cost and certainty, and their legends.

import { count, h, percent } from './dom.js';
import { svg } from './draw.js';

/** Side of a map; a multiple of all sizes of grids. */
export const PIXELS = 576;
/** Colours of certainties. */
export const CERTAINTIES = [['exact', '#08306b'], ['certified', '#9ecae1'], ['calibrated', '#f0a860'], ['unsettled', '#b3261e']];
export const certaintyColour = (name) => (CERTAINTIES.find(([known]) => known === name) ?? CERTAINTIES[3])[1];

export const shade = (share) => {
  // From a light to a dark blue; both themes show it on a neutral ground.
  const [from, to] = [[237, 243, 250], [8, 48, 107]];
  return from.map((part, at) => Math.round(part + (to[at] - part) * share));
};
export const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

/** Fills a square canvas with the colours of a grid; cells without one are grey. */
export function paintMap(canvas, size, colourOf) {
  const small = new OffscreenCanvas(size, size);
  const context = small.getContext('2d');
  const image = context.createImageData(size, size);
  for (let at = 0; at < size * size; at += 1) {
    // The first row of a picture is the top; the first row of the grid is the bottom.
    const target = (size - 1 - Math.floor(at / size)) * size + (at % size);
    const colour = colourOf(at);
    image.data.set(colour ? [...colour, 255] : [128, 128, 128, 40], 4 * target);
  }
  context.putImageData(image, 0, 0);
  canvas.width = PIXELS;
  canvas.height = PIXELS;
  const whole = canvas.getContext('2d');
  whole.imageSmoothingEnabled = false;
  whole.drawImage(small, 0, 0, PIXELS, PIXELS);
}

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
/** How far an arrow key goes, as a share of a side. */
const BY = 1 / 24;

/** Lets a place of a map be chosen, by a click or by arrow keys; `now` gives the last one, as shares to the right and upwards. */
export function choosable(canvas, now, take) {
  canvas.tabIndex = 0;
  canvas.setAttribute('role', 'application');
  canvas.addEventListener('click', (event) => {
    const box = canvas.getBoundingClientRect();
    take([(event.clientX - box.left) / box.width, 1 - (event.clientY - box.top) / box.height]);
  });
  canvas.addEventListener('keydown', (event) => {
    const move = ARROWS[event.key];
    if (!move) return;
    event.preventDefault();
    take(now().map((share, axis) => Math.min(Math.max(share + BY * move[axis], 0), 1)));
  });
}

const swatch = (colour) => svg('svg', { viewBox: '0 0 16 16', 'aria-hidden': 'true' }, svg('rect', { width: 16, height: 16, rx: 3, fill: colour }));

/** Names with their colours. */
export const legend = (entries) => h('ul', { class: 'legend' }, entries.map(([name, colour]) => h('li', {}, swatch(colour), name)));

/** What light and dark mean on a map of cost. */
export function costLegend(least, most, exact) {
  const one = (cost, share) => [`${count(cost)} (${percent(cost / exact)} of exact)`, `rgb(${shade(share)})`];
  return legend(least === most ? [[`${count(least)} everywhere (${percent(least / exact)} of exact)`, `rgb(${shade(0.5)})`]] : [one(least, 0), one(most, 1)]);
}
