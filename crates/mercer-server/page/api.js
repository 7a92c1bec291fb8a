// Requests to the server that sent the page. The token lives in this module only, as long as the page is open.

import { nonzeros, WIDE } from './rows.js';

let token = '';
/** Asks the user for a token; set by the page. */
let askForToken = async () => '';
/** The question that is open. */
let asked = null;

export function onTokenNeeded(ask) {
  askForToken = ask;
}

/** A refusal: its status and its sentence. */
export class Refusal extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

/** How often a request is made again that a busy server refused, and for how many seconds it then waits at most. */
const AGAIN = 6;
const MOST_SECONDS = 2;
const pause = (seconds) => new Promise((resolve) => { setTimeout(resolve, seconds * 1e3); });

async function refusal(response) {
  let sentence = `the server answered ${response.status}`;
  try {
    sentence = (await response.json()).error ?? sentence;
  } catch { /* the sentence above is all there is */ }
  return new Refusal(response.status, sentence);
}

/** A response that is fine; asks for the token when the server wants one, and again when it has too much to do. */
export async function request(path, options = {}) {
  for (let refused = 0; ;) {
    const used = token;
    const headers = { ...options.headers, ...(used ? { Authorization: `Bearer ${used}` } : {}) };
    let response;
    try {
      response = await fetch(path, { ...options, headers, cache: 'no-store', credentials: 'omit' });
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      throw new Refusal(0, 'the server cannot be reached');
    }
    if (response.ok) return response;
    if (response.status === 429 && refused < AGAIN) {
      refused += 1;
      await pause(Math.min(Number(response.headers.get('Retry-After') ?? 0.2), MOST_SECONDS) || 0.2);
      continue;
    }
    if (response.status !== 401) throw await refusal(response);
    if (token !== used) continue;
    // Requests that are refused together ask together.
    asked ??= askForToken(used !== '').finally(() => { asked = null; });
    token = await asked;
  }
}

export const json = async (path, options) => (await request(path, options)).json();

/** The three tensors of sparse rows. */
function sparse(rows) {
  const starts = [0];
  for (const { places } of rows) starts.push(starts.at(-1) + places.length);
  const all = (what) => rows.flatMap((row) => [...row[what]]);
  return [['indptr', 'INT32', Int32Array.from(starts)], ['indices', 'INT32', Int32Array.from(all('places'))], ['values', 'FP64', Float64Array.from(all('values'))]];
}

/** One model, by its documented addresses. */
export class Model {
  constructor(name) {
    this.base = `v2/models/${encodeURIComponent(name)}`;
  }

  static list = async () => (await json('v2/models')).models;

  metadata = () => json(this.base);

  card = () => json(`${this.base}/card`);

  supports = (first, count) => json(`${this.base}/supports?first=${first}&count=${count}`);

  /** Rows as bytes behind the JSON part, which is what is read fastest: all values, or those that are not 0 where columns are many. */
  rows(what, rows) {
    const columns = rows[0].columns ?? rows[0].length;
    const tensors = columns > WIDE ? sparse(rows.map((row) => row.places ? row : nonzeros(row)))
      : [['x', 'FP64', Float64Array.from(rows.flatMap((row) => [...row])), [rows.length, columns]]];
    const inputs = tensors.map(([name, datatype, { length, byteLength }, shape = [length]]) => ({ name, shape, datatype, parameters: { binary_data_size: byteLength } }));
    const head = new TextEncoder().encode(JSON.stringify({ inputs }));
    const headers = { 'Inference-Header-Content-Length': String(head.length), 'Content-Type': 'application/octet-stream' };
    return json(`${this.base}/${what}`, { method: 'POST', headers, body: new Blob([head, ...tensors.map(([, , values]) => values)]) });
  }

  explain = (row) => this.rows('explain', [row]);

  /** Answers of all rows: one array for each output. */
  async infer(rows) {
    const reply = await this.rows('infer', rows);
    const outputs = Object.fromEntries(reply.outputs.map((output) => [output.name, output.data]));
    return { ...outputs, parameters: reply.parameters };
  }

  batch = (query, headers, body, signal) =>
    request(`${this.base}/batch?${new URLSearchParams(query)}`, { method: 'POST', headers, body, signal });
}

/** What the server can do beyond answering, by name. */
export const extensions = async () => (await json('v2')).extensions;

export const metrics = async () => (await request('metrics')).text();

/** One request at a time; of those that come meanwhile only the latest is made, unless it `isLast`. The promise ends when none is left. */
export function latestWins(work, show, fail) {
  let next = null;
  let running = null;
  const runAll = async () => {
    try {
      while (next) {
        const { value } = next;
        next = null;
        try {
          show(await work(value), value);
        } catch (error) {
          fail(error);
        }
      }
    } finally {
      running = null;
    }
  };
  return (value, isLast = false) => {
    if (!isLast || !next) next = { value };
    // Not at once: it must not end before it is known to run.
    running ??= Promise.resolve().then(runAll);
    return running;
  };
}
