// The supports that weigh most in a score, for kernels that the page can evaluate itself. The answer does not rest on this.

import { h, number } from './dom.js';
import { columnName, denseRow, nonzeros, sideOf, unscaled, WIDE } from './rows.js';
import { fullInk, picture } from './pad.js';

/** Supports that are looked at, their values together, and how many come with a request. */
const MOST = 20000;
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

/** Of each kernel the term that is summed over columns, and the function of the sum. */
const product = (a, b) => a * b;
const KERNELS = {
  linear: () => [product, (sum) => sum],
  rbf: ({ gamma }) => [(a, b) => (a - b) ** 2, (sum) => Math.exp(-gamma * sum)],
  laplacian: ({ gamma }) => [(a, b) => Math.abs(a - b), (sum) => Math.exp(-gamma * sum)],
  polynomial: ({ degree = 3, gamma = 1, coef0 = 0 }) => [product, (sum) => (gamma * sum + coef0) ** degree],
  sigmoid: ({ gamma, coef0 = 0 }) => [product, (sum) => Math.tanh(gamma * sum + coef0)],
  intersection: () => [Math.min, (sum) => sum],
};

/** The kernel of a model: of a row, the function of the supports. None if the page does not know it. */
export function kernelOf(card) {
  const spec = parseSpec(card.kernel);
  if (!spec || !KERNELS[spec.name]) return null;
  const [term, finish] = KERNELS[spec.name](spec);
  return (row) => {
    const zeros = row.map((value) => term(0, value));
    const all = zeros.reduce((sum, value) => sum + value, 0);
    return ({ indices, values }) => {
      // Where a support has few zeros, its own columns are summed; else the others are taken from the sum.
      if (2 * indices.length < row.length) return finish(indices.reduce((sum, column, place) => sum + term(values[place], row[column]) - zeros[column], all));
      const dense = denseRow({ indices, values }, row.length);
      return finish(dense.reduce((sum, value, column) => sum + term(value, row[column]), 0));
    };
  };
}

/** All supports, or the first ones of very many. */
export async function loadSupports({ card, model }) {
  const loaded = { supports: [], scaling: {} };
  const { supports } = loaded;
  let values = 0;
  while (supports.length < Math.min(card.supports, MOST) && values < VALUES) {
    const part = await model.supports(supports.length, Math.min(PART, MOST - supports.length));
    if (part.supports.length === 0) break;
    loaded.scaling = part;
    supports.push(...part.supports);
    values += part.supports.reduce((sum, { indices }) => sum + indices.length, 0);
  }
  return loaded;
}

/** Supports with the largest share in a score: as they are, and as rows of the user. */
export function heaviest({ row, card }, { supports, scaling }, kernel, score) {
  const { centres, factors } = scaling;
  const similarity = kernel(centres ? row.map((value, column) => (value - (centres[column] ?? 0)) * factors[column]) : row);
  const weighed = supports.map((support, place) => ({ support, number: place + 1, beta: support.coefficients[score] })).filter(({ beta }) => beta);
  for (const one of weighed) {
    one.similarity = similarity(one.support);
    one.share = one.beta * one.similarity;
  }
  return weighed.sort((a, b) => Math.abs(b.share) - Math.abs(a.share)).slice(0, SHOWN)
    .map((one) => ({ ...one, raw: unscaled(denseRow(one.support, card.columns), scaling) }));
}

/** The list of them; `names` are those of the sides above and below 0. */
export function supportList(session, list, names) {
  const side = sideOf(session.card.columns);
  const full = side ? fullInk(session, side) : 1;
  const one = (support) => {
    // Of many columns most are 0.
    const { places } = nonzeros(support.raw);
    const columns = support.raw.length > WIDE ? places : Array.from(support.raw, (_, column) => column);
    const words = columns.slice(0, 6).flatMap((column, at) => [at ? ', ' : '', h('span', {}, `${columnName(session.input, column)} ${number(support.raw[column])}`)]);
    return h('li', {},
      side ? picture(support.raw, side, full, `support ${support.number}`) : h('div', {}, words, columns.length > 6 ? ', …' : ''),
      h('div', {}, h('b', {}, `${support.share > 0 ? '+' : ''}${number(support.share)}`), ` for ${names[support.share > 0 ? 0 : 1]}`),
      h('small', {}, `similarity ${number(support.similarity)}`));
  };
  return h('ul', { class: 'supports' }, list.map(one));
}
