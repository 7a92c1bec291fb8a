// Requests to the server that sent the page. The token lives in this module only, as long as the page is open.

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

/** One model, by its documented addresses. */
export class Model {
  constructor(name) {
    this.base = `v2/models/${encodeURIComponent(name)}`;
  }

  static list = async () => (await json('v2/models')).models;

  metadata = () => json(this.base);

  card = () => json(`${this.base}/card`);

  supports = (first, count) => json(`${this.base}/supports?first=${first}&count=${count}`);

  /** Rows as bytes behind the JSON part, which is what is read fastest. */
  rows(what, values, columns) {
    const bytes = Float64Array.from(values);
    const input = { name: 'x', shape: [values.length / columns, columns], datatype: 'FP64', parameters: { binary_data_size: bytes.byteLength } };
    const head = new TextEncoder().encode(JSON.stringify({ inputs: [input] }));
    const headers = { 'Inference-Header-Content-Length': String(head.length), 'Content-Type': 'application/octet-stream' };
    return json(`${this.base}/${what}`, { method: 'POST', headers, body: new Blob([head, bytes]) });
  }

  explain = (row) => this.rows('explain', row, row.length);

  /** Answers of all rows: one array for each output. */
  async infer(values, columns) {
    const reply = await this.rows('infer', values, columns);
    const outputs = Object.fromEntries(reply.outputs.map((output) => [output.name, output.data]));
    return { ...outputs, parameters: reply.parameters };
  }

  batch = (query, headers, body, signal) =>
    request(`${this.base}/batch?${new URLSearchParams(query)}`, { method: 'POST', headers, body, signal });
}

/** What the server can do beyond answering, by name. */
export const extensions = async () => (await json('v2')).extensions;

export const metrics = async () => (await request('metrics')).text();

/** One request at a time; of those that come meanwhile only the latest is made. The promise ends when none is left. */
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
  return (value) => {
    next = { value };
    // Not at once: it must not end before it is known to run.
    running ??= Promise.resolve().then(runAll);
    return running;
  };
}
