// The plane of Train: points, support vectors, border and margins on one canvas; points are added and taken away by pointer and keys.

import { h } from './dom.js';
import { classColour, contour } from './draw.js';
import { paintMap, PIXELS, rgb } from './maps.js';

/** Pixels within which a point is meant by an eraser. */
const NEAR = 14;

/** Shapes of classes, so that colours are not all that tells them apart. */
function shape(context, place, x, y, r) {
  context.beginPath();
  const corners = [0, 4, 3, 6, 5][place % 5];
  if (corners === 0) context.arc(x, y, r, 0, 2 * Math.PI);
  else {
    for (let corner = 0; corner < corners; corner += 1) {
      const angle = (2 * Math.PI * (corner + (corners === 4 ? 0.5 : 0))) / corners - Math.PI / 2;
      context[corner ? 'lineTo' : 'moveTo'](x + 1.25 * r * Math.cos(angle), y + 1.25 * r * Math.sin(angle));
    }
    context.closePath();
  }
}

/** A colour nearer to white, for what lies behind points. */
const pale = (colour) => rgb(colour).map((part) => Math.round(part + (255 - part) * 0.62));

export function plot({ add, remove }) {
  const label = 'plane of points: a click adds a point of the chosen class; with the arrow keys a cursor moves, the space bar adds a point, Delete takes the nearest one away';
  const canvas = h('canvas', { class: 'map plane', id: 'plane', tabIndex: 0, role: 'application', aria: { label }, width: PIXELS, height: PIXELS });
  const cursor = { x: 0.5, y: 0.5, isShown: false };
  let state = null;

  const share = ([low, high], value) => (value - low) / (high - low);
  const toPixels = ([x, y]) => [PIXELS * share(state.ranges[0], x), PIXELS * (1 - share(state.ranges[1], y))];
  const fromShares = (x, y) => state.ranges.map(([low, high], axis) => low + (high - low) * (axis === 0 ? x : 1 - y));

  const lines = (context, field, size, { isDashed, isTwoClasses, colour = '#000' }) => {
    // Two classes: the border at 0 and the margins at 1 and -1. More: where the label wins its closest pair by 1.
    const levels = isTwoClasses ? [[0, 2.4, []], [-1, 1.2, [7, 5]], [1, 1.2, [7, 5]]] : [[1, 1.2, [7, 5]]];
    for (const [level, width, dashes] of levels) {
      if (isDashed && level !== 0 && isTwoClasses) continue;
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.setLineDash(isDashed ? [2, 4] : dashes);
      context.stroke(new Path2D(contour(field, size, level, PIXELS)));
    }
    context.setLineDash([]);
  };
  /** Borders between labels of several classes. */
  const borders = (context, labels, size, isDashed) => {
    const unit = PIXELS / size;
    context.strokeStyle = '#000';
    context.lineWidth = isDashed ? 1.6 : 2.4;
    context.setLineDash(isDashed ? [2, 4] : []);
    context.beginPath();
    labels.forEach((one, at) => {
      const [x, y] = [at % size, Math.floor(at / size)];
      if (x + 1 < size && labels[at + 1] !== one) { context.moveTo((x + 1) * unit, PIXELS - y * unit); context.lineTo((x + 1) * unit, PIXELS - (y + 1) * unit); }
      if (y + 1 < size && labels[at + size] !== one) { context.moveTo(x * unit, PIXELS - (y + 1) * unit); context.lineTo((x + 1) * unit, PIXELS - (y + 1) * unit); }
    });
    context.stroke();
    context.setLineDash([]);
  };
  const points = (context) => {
    const { supports, bounded } = state;
    const r = state.points.length > 3000 ? 1.6 : state.points.length > 600 ? 2.6 : 4.2;
    state.points.forEach((point, at) => {
      const [x, y] = toPixels(point);
      context.fillStyle = classColour(point[2]);
      context.strokeStyle = '#fff';
      context.lineWidth = r / 4;
      shape(context, point[2], x, y, r);
      context.fill();
      context.stroke();
      if (!supports.has(at)) return;
      context.strokeStyle = '#000';
      context.lineWidth = Math.max(r / 3, 0.8);
      context.beginPath();
      context.arc(x, y, r + 2.5, 0, 2 * Math.PI);
      context.stroke();
      if (!bounded.has(at)) return;
      context.fillStyle = '#000';
      context.beginPath();
      context.arc(x, y, r * 0.45, 0, 2 * Math.PI);
      context.fill();
    });
  };
  const draw = () => {
    if (!state) return;
    const { map, small, vectors, isTwoClasses, colourOf } = state;
    const context = canvas.getContext('2d');
    if (map) paintMap(canvas, map.size, (at) => pale(colourOf(map.labels[at])));
    else { context.fillStyle = '#fff'; context.fillRect(0, 0, PIXELS, PIXELS); }
    if (map && !isTwoClasses) borders(context, map.labels, map.size, false);
    if (map) lines(context, map.field, map.size, { isTwoClasses });
    points(context);
    if (small) {
      if (isTwoClasses) lines(context, small.field, small.size, { isDashed: true, isTwoClasses, colour: '#c00000' });
      else borders(context, small.labels, small.size, true);
      context.strokeStyle = '#c00000';
      context.lineWidth = 2.5;
      for (const [x, y] of vectors.map(toPixels)) {
        context.beginPath();
        for (const way of [-1, 1]) { context.moveTo(x - 6, y - 6 * way); context.lineTo(x + 6, y + 6 * way); }
        context.stroke();
      }
    }
    if (cursor.isShown) {
      context.strokeStyle = '#000';
      context.lineWidth = 1.5;
      context.strokeRect(PIXELS * cursor.x - 6, PIXELS * cursor.y - 6, 12, 12);
    }
  };
  /** The nearest point to a place of the canvas, if there is one within reach. */
  const nearest = (x, y) => {
    let best = [NEAR, -1];
    state.points.forEach((point, at) => {
      const [a, b] = toPixels(point);
      const away = Math.hypot(a - PIXELS * x, b - PIXELS * y);
      if (away < best[0]) best = [away, at];
    });
    return best[1];
  };
  const act = (x, y, isErasing) => {
    if (!isErasing) { add(fromShares(x, y)); return; }
    const at = nearest(x, y);
    if (at >= 0) remove(at);
  };
  canvas.addEventListener('click', (event) => {
    if (!state) return;
    const box = canvas.getBoundingClientRect();
    cursor.isShown = false;
    act((event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height, event.shiftKey || state.isErasing);
  });
  canvas.addEventListener('blur', () => { cursor.isShown = false; draw(); });
  canvas.addEventListener('keydown', (event) => {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const move = moves[event.key];
    if (!state || (!move && ![' ', 'Delete', 'Backspace'].includes(event.key))) return;
    event.preventDefault();
    cursor.isShown = true;
    if (!move) { act(cursor.x, cursor.y, event.key !== ' '); return; }
    const by = event.shiftKey ? 0.1 : 0.02;
    cursor.x = Math.min(Math.max(cursor.x + by * move[0], 0.01), 0.99);
    cursor.y = Math.min(Math.max(cursor.y + by * move[1], 0.01), 0.99);
    draw();
  });
  return { canvas, show: (now) => { state = now; draw(); } };
}
