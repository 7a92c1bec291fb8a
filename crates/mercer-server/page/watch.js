// Watch the range close: the steps of an explanation, one by one.

import { between, count, field, h, percent, plural, roomFor } from './dom.js';
import { latestWins } from './api.js';
import { bars, classColour, closingRange, COLOURS, pairGrid, scoreLine, svg, voteRanges } from './draw.js';
import { isOpen, moments, rangesAfter, sideOfZero, votes } from './votes.js';
import { heaviest, kernelOf, loadSupports, supportList } from './supports.js';
import { labelText, sidesOf } from './play.js';

/** Pairs whose ranges are drawn, at most. */
const PAIRS = 9;

/** How many scores a machine has. */
function scoresOf({ output, classes, scheme }) {
  if (output !== 'classes' || classes.length === 2) return 1;
  return scheme === 'one_vs_rest' ? classes.length : (classes.length * (classes.length - 1)) / 2;
}

/** Everything that is drawn, from the steps. */
function story(session, explained) {
  const { card } = session;
  const classes = card.classes?.length ?? 0;
  const isVote = card.output === 'classes' && classes > 2;
  const found = moments(explained.steps);
  const after = rangesAfter(found, scoresOf(card));
  // An estimate of several classes does not say which class leads.
  const leaderAt = (moment, at) => {
    if (isVote) return moment.isEstimate ? null : votes(after[at], classes, card.scheme).leader;
    return sidesOf(card) ? Number(sideOfZero(moment.isEstimate ? moment.steps.at(-1) : after[at][0])) : null;
  };
  const leaders = found.map(leaderAt);
  let last = null;
  found.forEach((moment, at) => {
    moment.isChange = last !== null && leaders[at] !== null && leaders[at] !== last;
    last = leaders[at] ?? last;
  });
  return { explained, found, after, leaders, isVote, classes };
}

function leaderName(session, { leaders, isVote }, at) {
  const { card } = session;
  if (leaders[at] === null) return null;
  return isVote ? card.classes[leaders[at]] : sidesOf(card)[leaders[at]];
}

/** The drawing of a machine with one score. */
function oneScore(session, told, now, isZoomed) {
  const sides = sidesOf(session.card);
  const steps = told.found.map((moment, at) => {
    const own = moment.steps[moment.steps.length - 1];
    const { low, high } = moment.isEstimate ? own : told.after[at][0];
    return { low, high, isEstimate: moment.isEstimate, isChange: moment.isChange, moment: at };
  });
  const settled = sides && steps.find((step) => !step.isEstimate && !isOpen(step));
  const current = steps[now];
  const { low, high } = current;
  return [
    closingRange({ steps, now, sides, settled, isZoomed, width: roomFor(760) }),
    h('p', { role: 'status' }, `${current.isEstimate ? 'Estimate' : 'Proved'}: the score ${between(low, high)}. `,
      !sides || current.isEstimate ? '' : isOpen(current) ? 'The range holds 0: both labels are possible.' : 'The whole range lies on one side of 0: the label cannot change any more.'),
  ];
}

/** The drawing of a machine with several classes: possible votes, pairs, and the ranges of the pairs that matter. */
function manyScores(session, told, now) {
  const { card } = session;
  const vote = votes(told.after[now], told.classes, card.scheme);
  const moment = told.found[now];
  if (moment.isEstimate) {
    const { low, high } = moment.steps[moment.steps.length - 1];
    return [scoreLine({ low, high, certainty: 'calibrated', width: roomFor(560) }), h('p', { role: 'status' }, `Estimate: the smallest score of the leading class against another one ${between(low, high)}.`)];
  }
  const open = vote.isPossible.filter(Boolean).length;
  const words = open > 1 ? `${open} of ${told.classes} classes are still possible.` : `Only ${card.classes[vote.isPossible.indexOf(true)]} is possible: the label cannot change any more.`;
  if (vote.pairs.length === 0) {
    const places = told.after[now].map((range, place) => [range, place]).filter(([, place]) => vote.isPossible[place]).slice(0, PAIRS);
    return [h('p', { role: 'status' }, words), ...places.map(([{ low, high }, place]) => h('div', {}, h('b', {}, card.classes[place]), scoreLine({ low, high, certainty: 'certified', width: roomFor(420) })))];
  }
  const classes = card.classes.map((name, place) => ({
    name, least: vote.least[place], largest: vote.largest[place], isPossible: vote.isPossible[place], colour: classColour(place),
  }));
  const matter = vote.pairs.filter((pair) => pair.matters);
  const lines = matter.slice(0, PAIRS).map(({ first, second, score }) => {
    const { low, high } = told.after[now][score];
    return h('div', {}, scoreLine({ low, high, certainty: 'certified', sides: [card.classes[second], card.classes[first]], width: roomFor(420) }));
  });
  return [
    h('p', { role: 'status' }, words),
    h('div', { class: 'columns' },
      h('div', {}, h('h3', {}, 'Votes that a class has for sure, and can still get'), voteRanges({ classes, most: vote.most, width: roomFor(500) })),
      h('div', {}, h('h3', {}, 'Pairs: filled is decided, dashed is open, red still matters'), pairGrid({ names: card.classes, pairs: vote.pairs }))),
    h('h3', {}, matter.length ? `Pairs that still matter: ${matter.length}` : 'No pair matters any more'),
    h('div', { class: 'columns' }, lines),
    matter.length > PAIRS ? h('p', {}, h('small', {}, `The first ${PAIRS} of them are drawn.`)) : null,
  ];
}

function costs(told, now) {
  const { explained, found } = told;
  const cost = found[now].cost;
  const exact = explained.exact_cost;
  return bars({
    width: roomFor(560), label: 'cost so far against the exact evaluation', most: Math.max(exact, explained.cost),
    items: [
      { name: 'so far', value: cost, text: `${count(cost)}, ${percent(cost / exact)}`, colour: COLOURS.proof },
      { name: 'exact', value: exact, text: count(exact), colour: COLOURS.faint },
    ],
  });
}

/** The supports that weigh most in one score. */
function supportsPanel(session) {
  const kernel = kernelOf(session.card);
  const into = h('div', {});
  if (session.card.supports === 0) {
    into.append(h('p', {}, 'This model keeps no support vectors: training has added them up to a weight, or a table, for each column.'));
    return { element: into, show() {} };
  }
  if (!session.card.show_supports) {
    into.append(h('p', {}, 'Support vectors are training data. This server does not show them; with --show-supports it would.'));
    return { element: into, show() {} };
  }
  if (!kernel || !session.canUnscale) {
    into.append(h('p', {}, 'The page cannot evaluate this kernel, or the scaling of its rows, so it does not know which support vectors weigh most.'));
    return { element: into, show() {} };
  }
  let loaded = null;
  const show = async (told) => {
    try {
      loaded ??= loadSupports(session);
      const found = await loaded;
      const { card } = session;
      const [seen, all] = [found.supports.length, card.supports];
      let [score, names] = [0, sidesOf(card) ? [...sidesOf(card)].reverse() : ['a larger value', 'a smaller value']];
      if (told.isVote) {
        const vote = votes(told.after.at(-1), told.classes, card.scheme);
        const winner = card.classes.findIndex((name) => name === String(told.explained.label));
        // The pair of the label that was decided most narrowly.
        const near = ({ score: at }) => Math.min(Math.abs(told.after.at(-1)[at].low), Math.abs(told.after.at(-1)[at].high));
        const own = vote.pairs.filter(({ first, second }) => first === winner || second === winner).sort((a, b) => near(a) - near(b));
        score = own[0]?.score ?? Math.max(winner, 0);
        names = own[0] ? [card.classes[own[0].first], card.classes[own[0].second]] : [card.classes[score], 'the others'];
      }
      const list = heaviest(session, found, kernel, score);
      into.replaceChildren(
        h('p', {}, `Of ${seen < all ? `the first ${count(seen)} of ` : ''}${plural(all, 'support vector')} these weigh most in the decision between ${names[0]} and ${names[1]}. Each adds its weight times its similarity to the row.`),
        supportList(session, list, names));
    } catch (error) {
      into.replaceChildren(h('p', { class: 'alarm' }, error.message));
    }
  };
  return { element: into, show };
}

const sample = (isEstimate) => svg('svg', { viewBox: '0 0 16 16', 'aria-hidden': 'true' }, svg('line', {
  x1: 0, x2: 16, y1: 8, y2: 8, 'stroke-width': 4, stroke: isEstimate ? COLOURS.estimate : COLOURS.proof, 'stroke-dasharray': isEstimate ? '4 2' : 'none',
}));
const diamond = () => svg('svg', { viewBox: '0 0 16 16', 'aria-hidden': 'true' }, svg('path', { d: 'M8 2l6 6l-6 6l-6-6z', fill: COLOURS.mark }));

const dash = () => svg('svg', { viewBox: '0 0 16 16', 'aria-hidden': 'true' }, svg('line', { x1: 2, x2: 14, y1: 8, y2: 8, 'stroke-width': 3, stroke: COLOURS.mark }));

/** How much work the answer took, and whether that makes it an easy query. */
function effort({ card }, explained, saved) {
  if (!card.stages.length) return 'The model has no plan with cheaper stages: every query takes the exact evaluation.';
  const { stage } = explained.steps.at(-1);
  if (stage === explained.stages.length - 1 && saved <= 0.005) {
    return `It took ${percent(explained.cost / explained.exact_cost)} of the multiply-adds of the exact evaluation: a hard query. What cheaper stages did in vain is counted too.`;
  }
  return saved > 0.005 ? `It took ${percent(saved)} less work than the exact evaluation: an easy query.`
    : `The stage ${explained.stages[stage]} settled it, before the exact evaluation: an easy query. Its multiply-adds are as many, but take less time.`;
}

export function watchView(session, into) {
  const [drawing, heading, side] = ['div', 'p', 'div'].map((tag) => h(tag, {}));
  const slider = h('input', { type: 'range', min: 1, max: 1, value: 1, step: 1, id: 'step' });
  const zoom = h('input', { type: 'checkbox' });
  const play = h('button', { type: 'button', class: 'main' }, '▶ Play');
  const supports = supportsPanel(session);
  let told = null;
  let timer = 0;

  const draw = () => {
    if (!told) return;
    const now = slider.valueAsNumber - 1;
    const moment = told.found[now];
    const leader = leaderName(session, told, now);
    heading.replaceChildren(`Step ${now + 1} of ${told.found.length}, in stage `, h('code', {}, told.explained.stages[moment.stage]), '. ',
      leader !== null ? h('b', {}, `${leader} leads${moment.isChange ? ': the leading label has changed' : ''}.`) : '');
    drawing.replaceChildren(...(told.isVote ? manyScores(session, told, now) : oneScore(session, told, now, zoom.checked)).filter(Boolean));
    side.replaceChildren(costs(told, now));
  };
  const stop = () => { clearInterval(timer); timer = 0; play.textContent = '▶ Play'; };
  play.addEventListener('click', () => {
    if (timer) { stop(); return; }
    if (slider.value === slider.max) slider.value = 1;
    play.textContent = '■ Stop';
    const by = Math.max(1, Math.round(told.found.length / 80));
    timer = setInterval(() => {
      slider.value = Math.min(slider.valueAsNumber + by, Number(slider.max));
      draw();
      if (slider.value === slider.max) stop();
    }, Math.max(60, Math.min(600, 4000 / told.found.length)));
    draw();
  });
  slider.addEventListener('input', () => { stop(); draw(); });
  zoom.addEventListener('change', draw);

  const ask = latestWins((row) => session.model.explain(row), (explained) => {
    told = story(session, explained);
    if (told.found.length === 0) { heading.textContent = 'The plan tells no steps for this row.'; return; }
    slider.max = told.found.length;
    slider.value = told.found.length;
    controls.hidden = told.found.length === 1;
    const saved = 1 - explained.cost / explained.exact_cost;
    answer.replaceChildren('The answer is ', h('b', { id: 'explained' }, labelText(session.card, explained.label)), ' ', h('span', { class: `badge ${explained.certainty}` }, explained.certainty), ' ',
      effort(session, explained, saved));
    draw();
    supports.show(told);
  }, (error) => session.problem(error));

  const answer = h('p', {});
  const controls = h('div', { class: 'row' }, play, field('Step', slider, { kind: 'grow' }), h('label', { class: 'inline', hidden: session.card.classes?.length > 2 }, zoom, h('span', {}, 'Zoom to the last range')));
  into.append(
    h('p', { class: 'lead' }, 'Each step narrows the range in which the score can lie. As soon as no other label is possible, the work ends. The row is the one of Play.'),
    h('section', {}, answer,
      controls,
      heading,
      h('ul', { class: 'legend' }, h('li', {}, sample(false), 'proved'), h('li', {}, sample(true), 'estimate'), h('li', {}, diamond(), 'the leading label changes'), sidesOf(session.card) ? h('li', {}, dash(), 'from here on no other label is possible') : null),
      drawing),
    h('section', {}, h('h3', {}, 'Cost, in multiply-adds'), side),
    h('section', {}, h('h3', {}, 'Support vectors that weigh most'), supports.element));
  ask(session.row);
  const forget = session.onRow(() => ask(session.row));
  return () => { stop(); forget(); };
}
