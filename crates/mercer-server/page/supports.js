// The supports that weigh most in a score, for kernels that the page can evaluate itself. The answer does not rest on this.

import { h, number } from './dom.js';
import { columnName, denseRow, sideOf, unscaled } from './rows.js';
import { fullInk, picture } from './pad.js';

/** Supports that are looked at, and how many come with a request. */
const MOST = 4000;
const VALUES = 4e6;
const PART = 1000;
const SHOWN = 8;

/** `rbf(gamma=0.5)` as a name and its parameters. */
export function parseSpec(text) {
  const [, name, inner] = /^(\w+)(?:\(([^()]*)\))?$/.exec(text) ?? [];
  if (!name) return null;
  const parameters = (inner ?? '').split(',').filter(Boolean).map((part) => part.split('=').map((word) => word.trim()));
  return { name, ...Object.fromEntries(parameters.map(([key, value]) => [key, Number(value)])) };
}

const sum = (u, v, term) => u.reduce((all, value, at) => all + term(value, v[at]), 0);
const dot = (u, v) => sum(u, v, (a, b) => a * b);
const KERNELS = {
  linear: () => dot,
  rbf: ({ gamma }) => (u, v) => Math.exp(-gamma * sum(u, v, (a, b) => (a - b) ** 2)),
  laplacian: ({ gamma }) => (u, v) => Math.exp(-gamma * sum(u, v, (a, b) => Math.abs(a - b))),
  polynomial: ({ degree = 3, gamma = 1, coef0 = 0 }) => (u, v) => (gamma * dot(u, v) + coef0) ** degree,
  sigmoid: ({ gamma, coef0 = 0 }) => (u, v) => Math.tanh(gamma * dot(u, v) + coef0),
  intersection: () => (u, v) => sum(u, v, Math.min),
};

/** The kernel of a model as a function; none if the page does not know it. */
export function kernelOf(card) {
  const spec = parseSpec(card.kernel);
  return spec && KERNELS[spec.name] ? KERNELS[spec.name](spec) : null;
}

/** All supports, or the first ones of very many: scaled rows, rows of the user, coefficients. */
export async function loadSupports(session) {
  const { card, model } = session;
  const all = [];
  const most = Math.min(card.supports, MOST, Math.max(8, Math.floor(VALUES / card.columns)));
  while (all.length < most) {
    const part = await model.supports(all.length, Math.min(PART, most - all.length));
    if (part.supports.length === 0) break;
    const { centres, factors } = part;
    for (const support of part.supports) {
      const scaled = denseRow(support, card.columns);
      all.push({ number: all.length + 1, scaled, raw: unscaled(scaled, part), coefficients: support.coefficients });
    }
    session.scale = centres ? (row) => row.map((value, column) => (value - centres[column]) * factors[column]) : (row) => row;
  }
  return all;
}

/** Supports with the largest share in a score. */
export function heaviest(session, supports, kernel, score) {
  const row = session.scale(session.row);
  const weighed = supports.filter(({ coefficients }) => coefficients[score])
    .map((support) => ({ ...support, similarity: kernel(support.scaled, row), beta: support.coefficients[score] }));
  weighed.forEach((support) => { support.share = support.beta * support.similarity; });
  return weighed.sort((a, b) => Math.abs(b.share) - Math.abs(a.share)).slice(0, SHOWN);
}

/** The list of them; `names` are those of the sides above and below 0. */
export function supportList(session, list, names) {
  const side = sideOf(session.card.columns);
  const full = side ? fullInk(session, side) : 1;
  const one = (support) => {
    const columns = Array.from(support.raw.slice(0, 6), (value, column) => `${columnName(session.input, column)} ${number(value)}`);
    return h('li', {},
      side ? picture(support.raw, side, full, `support ${support.number}`) : h('div', {}, columns.join(', '), support.raw.length > 6 ? ', …' : ''),
      h('div', {}, h('b', {}, `${support.share > 0 ? '+' : ''}${number(support.share)}`), ` for ${names[support.share > 0 ? 0 : 1]}`),
      h('small', {}, `similarity ${number(support.similarity)}`));
  };
  return h('ul', { class: 'supports' }, list.map(one));
}
