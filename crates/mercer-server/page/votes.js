// What the steps of an explanation say of the answer: moments, scores by then, classes that are still possible, pairs that still
// matter. The vote is the one of the machine: one-vs-one gives f > 0 to the first class of a pair, and ties to the lowest class.

/** Pairs of classes in the order of their scores. */
export function pairsOf(classes) {
  const pairs = [];
  for (let first = 0; first < classes; first += 1) {
    for (let second = first + 1; second < classes; second += 1) pairs.push([first, second]);
  }
  return pairs;
}

/** Steps grouped by stage, progress and kind: what was learned at the same time. */
export function moments(steps) {
  const found = [];
  let last = null;
  for (const step of steps) {
    const key = `${step.stage} ${step.progress} ${step.is_estimate}`;
    // Each score is learned once in a moment; a range that decisions rest on repeats the one in between.
    if (!last || last.key !== key) found.push(last = { key, stage: step.stage, progress: step.progress, isEstimate: step.is_estimate, steps: [] });
    last.cost = step.cost;
    last.steps.push(step);
  }
  return found;
}

const meet = (one, other) => {
  const both = { low: Math.max(one.low, other.low), high: Math.min(one.high, other.high) };
  return both.low <= both.high ? both : one;
};
const OPEN = { low: -Number.MAX_VALUE, high: Number.MAX_VALUE };

/** The proved range of each score after each moment. */
export function rangesAfter(found, scores) {
  let known = Array.from({ length: scores }, () => OPEN);
  return found.map(({ steps }) => {
    known = known.slice();
    for (const step of steps) if (!step.is_estimate) known[step.score] = meet(step, known[step.score]);
    return known;
  });
}

const middle = ({ low, high }) => low / 2 + high / 2;
const isOpen = ({ low, high }) => low <= 0 && high > 0;

/** Votes that each class has for sure, and can have at most, and what follows from them. */
export function votes(ranges, classes, scheme) {
  if (scheme === 'one_vs_rest' && classes > 2) return byScore(ranges);
  const pairs = pairsOf(classes);
  const [least, largest, leading] = [0, 1, 2].map(() => new Array(classes).fill(0));
  pairs.forEach(([first, second], at) => {
    const range = ranges[at];
    if (range.high > 0) largest[first] += 1;
    if (range.low <= 0) largest[second] += 1;
    if (range.low > 0) least[first] += 1;
    if (range.high <= 0) least[second] += 1;
    leading[middle(range) > 0 ? first : second] += 1;
  });
  const best = Math.max(...least);
  const isPossible = largest.map((most, place) => most > best || (most === best && !least.some((sure, other) => sure === best && other < place)));
  return {
    most: classes - 1, least, largest, isPossible, leader: leading.indexOf(Math.max(...leading)),
    pairs: pairs.map(([first, second], at) => ({
      first, second, score: at, isOpen: isOpen(ranges[at]), winner: ranges[at].low > 0 ? first : second,
      matters: isOpen(ranges[at]) && (isPossible[first] || isPossible[second]) && isPossible.filter(Boolean).length > 1,
    })),
  };
}

/** One score for each class: the largest wins. */
function byScore(ranges) {
  const best = Math.max(...ranges.map(({ low }) => low));
  const middles = ranges.map(middle);
  return { isPossible: ranges.map(({ high }) => high >= best), leader: middles.indexOf(Math.max(...middles)), pairs: [] };
}

/** The leading answer of a machine with one score. */
export const sideOfZero = (range) => middle(range) > 0;
export { isOpen };
