// A pad for rows that are square pictures: draw with a pointer, or with arrow keys and the space bar.

import { h } from './dom.js';

/** Shows a row as a picture, dark where its values are large. */
export function paint(canvas, row, side, full) {
  canvas.width = side;
  canvas.height = side;
  const context = canvas.getContext('2d');
  const image = context.createImageData(side, side);
  row.forEach((value, at) => {
    const shade = 255 * (1 - Math.min(Math.max(value / full, 0), 1));
    image.data.set([shade, shade, shade, 255], 4 * at);
  });
  context.putImageData(image, 0, 0);
}

/** A picture of a row. */
export function picture(row, side, full, label) {
  const canvas = h('canvas', { class: 'picture', role: 'img', aria: { label } });
  paint(canvas, row, side, full);
  return canvas;
}

/** Value of full ink: the largest known one of all columns, or what such pictures usually have. */
export function fullInk(session, side) {
  const largest = session.hasRanges ? Math.max(...session.ranges.map(([, high]) => high)) : 0;
  return largest > 0 ? largest : side === 8 ? 16 : 255;
}

export function pad(session, side) {
  const full = fullInk(session, side);
  const radius = side === 8 ? 0.75 : 1.3;
  const label = `drawing pad, ${side} by ${side}: draw with the pointer, or move with the arrow keys and draw with the space bar`;
  const canvas = h('canvas', { class: 'pad', tabIndex: 0, role: 'application', aria: { label } });
  const brush = h('select', {}, h('option', { value: 'draw' }, 'Draw'), h('option', { value: 'erase' }, 'Erase'));
  const cursor = { x: side >> 1, y: side >> 1, isShown: false };
  let last = null;

  const show = () => {
    paint(canvas, session.row, side, full);
    if (!cursor.isShown) return;
    const context = canvas.getContext('2d');
    context.fillStyle = 'rgb(200 60 20 / 55%)';
    context.fillRect(cursor.x, cursor.y, 1, 1);
  };
  /** Adds ink around a point, less with the distance. */
  const touch = (x, y) => {
    const row = Float64Array.from(session.row);
    for (let at = 0; at < row.length; at += 1) {
      const away = Math.hypot((at % side) + 0.5 - x, Math.floor(at / side) + 0.5 - y);
      const ink = Math.round(full * Math.min(Math.max(1.35 - away / radius, 0), 1));
      if (brush.value === 'draw') row[at] = Math.max(row[at], ink);
      else if (ink > 0) row[at] = 0;
    }
    session.setRow(row, 'pad');
  };
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * side, ((event.clientY - box.top) / box.height) * side];
  };
  const draw = (event) => {
    const [x, y] = place(event);
    const [fromX, fromY] = last ?? [x, y];
    const steps = Math.max(1, Math.ceil(Math.hypot(x - fromX, y - fromY) * 2));
    for (let step = 1; step <= steps; step += 1) {
      touch(fromX + ((x - fromX) * step) / steps, fromY + ((y - fromY) * step) / steps);
    }
    last = [x, y];
  };
  canvas.addEventListener('pointerdown', (event) => {
    canvas.setPointerCapture(event.pointerId);
    last = null;
    cursor.isShown = false;
    draw(event);
  });
  canvas.addEventListener('pointermove', (event) => { if (event.buttons) draw(event); });
  canvas.addEventListener('blur', () => { cursor.isShown = false; show(); });
  canvas.addEventListener('keydown', (event) => {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const move = moves[event.key];
    if (!move && event.key !== ' ') return;
    event.preventDefault();
    cursor.isShown = true;
    if (move) {
      cursor.x = Math.min(Math.max(cursor.x + move[0], 0), side - 1);
      cursor.y = Math.min(Math.max(cursor.y + move[1], 0), side - 1);
      show();
    } else touch(cursor.x + 0.5, cursor.y + 0.5);
  });
  const clear = h('button', { type: 'button', on: { click: () => session.setRow(new Float64Array(side * side), 'pad') } }, 'Clear');
  return { element: h('div', {}, canvas, h('div', { class: 'row' }, h('label', { class: 'inline' }, h('span', {}, 'Pen'), brush), clear)), show };
}
