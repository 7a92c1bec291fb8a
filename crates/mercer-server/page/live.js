// Live: what the server does now, from its metrics.

import { count, h, number, percent, roomFor } from './dom.js';
import { metrics } from './api.js';
import { bars, classColour, timeline } from './draw.js';

const SECONDS = 1;
/** Looks that are kept, and those that quantiles are taken over. */
const KEPT = 120;
const WINDOW = 30;

/** Lines of metrics: name, labels, value. */
export function parseMetrics(text) {
  const found = [];
  for (const line of text.split('\n')) {
    const match = /^([a-z_]+)(?:\{(.*)\})? (\S+)/i.exec(line);
    if (!match || line.startsWith('#')) continue;
    const labels = Object.fromEntries([...(match[2] ?? '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)]
      .map(([, key, value]) => [key, value.replace(/\\(.)/g, (_, letter) => (letter === 'n' ? '\n' : letter))]));
    found.push({ name: match[1], labels, value: Number(match[3]) });
  }
  return found;
}

/** What the view needs of one look. */
function look(text, model) {
  const all = parseMetrics(text);
  const of = (name, own = true) => all.filter((line) => line.name === name && (!own || line.labels.model === model));
  const total = (name, own) => of(name, own).reduce((sum, { value }) => sum + value, 0);
  const first = (name) => of(name)[0]?.value;
  // A model that was exchanged has lines for each of its versions.
  const sums = (name, label) => {
    const found = new Map();
    for (const { labels, value } of of(name)) found.set(labels[label], (found.get(labels[label]) ?? 0) + value);
    return [...found];
  };
  return {
    at: performance.now() / 1e3,
    queries: total('mercer_queries_total'),
    requests: total('mercer_requests_total'),
    shed: total('mercer_shed_total', false),
    stages: sums('mercer_settled_total', 'stage'),
    certainties: sums('mercer_queries_total', 'certainty'),
    buckets: of('mercer_request_duration_seconds_bucket', false).map(({ labels, value }) => [labels.le === '+Inf' ? Infinity : Number(labels.le), value]),
    waits: total('mercer_queue_expected_seconds', false),
    audit: first('mercer_audit_bound_low') === undefined ? null
      : { low: first('mercer_audit_bound_low'), high: first('mercer_audit_bound_high'), asked: first('mercer_audit_queries_total') ?? 0, alarm: first('mercer_audit_alarm') },
  };
}

/** A quantile of a histogram between two looks, interpolated within its bucket; seconds. */
export function quantile(older, newer, share) {
  const counts = newer.map(([end, value], at) => [end, value - (older[at]?.[1] ?? 0)]);
  const all = counts.at(-1)?.[1] ?? 0;
  if (all <= 0) return NaN;
  const wanted = share * all;
  const at = counts.findIndex(([, value]) => value >= wanted);
  const [end, value] = counts[at];
  const [start, before] = at > 0 ? counts[at - 1] : [0, 0];
  return end === Infinity ? start : start + (end - start) * ((wanted - before) / (value - before || 1));
}

const tile = (name, value, more) => h('div', { class: 'tile' }, h('span', {}, name), h('b', {}, value), more ? h('small', {}, more) : null);
const milliseconds = (seconds) => (Number.isFinite(seconds) ? `${number(seconds * 1e3)} ms` : '–');

export function liveView(session, into) {
  const body = h('div', {}, h('p', {}, 'Looking …'));
  const looks = [];
  let isLeft = false;
  let timer = 0;

  const audit = ({ audit: now }) => {
    if (!now) return [h('p', {}, 'Nothing is audited: the model gives no calibrated answers, or the server runs without --audit.')];
    const series = ['high', 'low'].map((end, at) => ({ name: `${end} bound`, values: looks.map((one) => one.audit?.[end] ?? NaN), colour: classColour(at) }));
    return [
      h('p', { class: now.alarm ? 'alarm' : '' }, `${count(now.asked)} answers were asked again exactly: the share with another label lies between `
        + `${percent(now.low)} and ${percent(now.high)}${now.alarm ? '. The promise is broken' : ''}.`),
      timeline({ series, width: roomFor(900), label: 'bounds of the share of disagreements' }),
    ];
  };
  const show = () => {
    const now = looks.at(-1);
    const before = looks.at(-1 - Math.min(looks.length - 1, WINDOW));
    const rates = looks.slice(1).map((one, at) => Math.max((one.queries - looks[at].queries) / (one.at - looks[at].at), 0));
    const order = [...session.card.stages, 'exact'];
    now.stages.sort(([one], [other]) => order.indexOf(one) - order.indexOf(other));
    const settled = now.stages.reduce((sum, [, value]) => sum + value, 0);
    const asked = looks.length < 2 ? [NaN, NaN] : [0.5, 0.99].map((share) => quantile(before.buckets, now.buckets, share));
    body.replaceChildren(
      h('div', { class: 'tiles' },
        tile('Queries per second', rates.length ? number(rates.at(-1)) : '–'),
        tile('Request, p50', milliseconds(asked[0]), `all models, ${WINDOW} s`), tile('Request, p99', milliseconds(asked[1])),
        tile('Queries answered', count(now.queries), now.certainties.map(([name, value]) => `${count(value)} ${name}`).join(', ')),
        tile('Refused by load', count(now.shed), 'since the start, all models'), tile('Expected wait', milliseconds(now.waits))),
      h('h3', {}, 'Queries per second'),
      timeline({ width: roomFor(900), series: [{ name: 'queries per second', values: rates.length ? rates : [0] }], label: `queries per second, now ${number(rates.at(-1) ?? 0)}` }),
      h('h3', {}, 'Settled by each stage, since the start'),
      settled ? bars({ width: roomFor(700), label: 'share settled by each stage', most: 1, items: now.stages.map(([name, value], at) => ({ name, value: value / settled, text: percent(value / settled), colour: classColour(at) })) }) : h('p', {}, 'No query yet.'),
      h('h3', {}, 'Audit'),
      ...audit(now));
  };
  const step = async () => {
    try {
      const text = await metrics();
      if (isLeft) return;
      looks.push(look(text, session.name));
      looks.splice(0, Math.max(looks.length - KEPT, 0));
      session.problem(null);
      show();
    } catch (error) {
      if (!isLeft) session.problem(error);
    }
    if (!isLeft) timer = setTimeout(step, SECONDS * 1e3);
  };
  into.append(h('p', { class: 'lead' }, `What the server does now, by its metrics, once a second.`), h('section', {}, body));
  step();
  return () => { isLeft = true; clearTimeout(timer); };
}
