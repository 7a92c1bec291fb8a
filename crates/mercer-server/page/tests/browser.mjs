// The page of `mercer serve` in a real browser: clicks, and what is shown then. `cargo xtask test --only page` runs it.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, request as ask } from 'node:http';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { checkBytes, checkView, closeAll, coloursOf, DATASETS, LOOKS, made, mercer, openBrowser, shows, start, swipe, tabTo, TOUCH, visit } from './support.mjs';

const QUERIES = path.join(DATASETS, 'digits/queries.svm');
const SONAR = path.join(DATASETS, 'sonar/sonar.csv');
const TOKEN = '0123456789abcdef';
const VIEWS = ['card', 'play', 'watch', 'hard', 'batch', 'live'];

let open;
let closed;

/** Digits of 8 by 8 as pictures of 28 by 28: a table with a column for each pixel. */
function pictures() {
  const lines = readFileSync(QUERIES, 'utf8').trim().split('\n').slice(0, 240);
  const table = lines.map((line) => {
    const [label, ...pairs] = line.split(' ');
    const small = new Float64Array(64);
    for (const pair of pairs) { const [index, value] = pair.split(':').map(Number); small[index - 1] = value; }
    const large = Array.from({ length: 784 }, (_, at) => Math.round(15.9 * small[8 * Math.floor(((at / 28) | 0) * 8 / 28) + Math.floor((at % 28) * 8 / 28)]));
    return [...large, `n${label}`].join();
  });
  writeFileSync(made('pictures.csv'), [`${Array.from({ length: 784 }, (_, at) => `p${at}`).join()},digit`, ...table].join('\n'));
  mercer('train', made('pictures.csv'), '-o', made('p.mercer'), '--kernel', 'rbf(gamma=3e-7)', '--label', 'digit', '--formulation', 'c_svc(C=10)');
  mercer('compile', made('p.mercer'), '--plan', 'cascade(anytime(chunk=16), exact)', '-o', made('pictures.mercer'));
}

function models() {
  pictures();
  mercer('import', path.join(DATASETS, 'digits/digits.model'), '-o', made('d.mercer'));
  mercer('compile', made('d.mercer'), '--plan', 'cascade(anytime(chunk=16), exact)', '-o', made('digits.mercer'));
  mercer('compile', made('d.mercer'), '--plan', 'cascade(low_precision, exact)', '-o', made('quick.mercer'));
  mercer('compile', made('d.mercer'), '--plan', 'cascade(student(8, 16), low_precision, exact)', '--sample', QUERIES, '--eps', '0.05', '-o', made('estimated.mercer'));
  mercer('train', SONAR, '-o', made('s.mercer'), '--kernel', 'polynomial(degree=2, gamma=1, coef0=1)');
  mercer('compile', made('s.mercer'), '--plan', 'cascade(spectral, exact)', '-o', made('sonar.mercer'));
  mercer('tune', made('s.mercer'), '--sample', SONAR, '--contract', 'certified', '--time-limit', '20s', '-o', made('tuned.mercer'));
  mercer('train', path.join(DATASETS, 'haberman/haberman.csv'), '-o', made('haberman.mercer'), '--kernel', 'rbf(gamma=1)', '--scale', 'standard');
  const abalone = readFileSync(path.join(DATASETS, 'abalone/abalone.csv'), 'utf8').split('\n').slice(0, 300);
  // Without the first column, which is a word.
  writeFileSync(made('abalone.csv'), abalone.map((line) => line.replace(/^\w+,/, '')).join('\n'));
  mercer('train', made('abalone.csv'), '-o', made('abalone.mercer'), '--kernel', 'rbf(gamma=1)', '--scale', 'standard', '--formulation', 'epsilon_svr(C=1)', '--label', 'rings');
}

/** Columns of the wide model, and its rows: a column for the class, some for the row, and noise. */
const COLUMNS = 50000;
function wideRows() {
  return Array.from({ length: 120 }, (_, row) => {
    const class_ = row % 2;
    const columns = new Map([[10 + class_, 2], [COLUMNS, 1], ...Array.from({ length: 30 }, (_unused, at) => [100 + (row * 1009 + at * 7919) % (COLUMNS - 200), 1 + (at % 3)])]);
    return `${class_ ? '+1' : '-1'} ${[...columns].sort(([a], [b]) => a - b).map(([column, value]) => `${column}:${value}`).join(' ')}`;
  });
}

/** Models of other kinds: weights without supports, one class, one score for each class, very many columns. */
function special() {
  mercer('train', SONAR, '-o', made('linear.mercer'), '--kernel', 'linear', '--solver', 'linear', '--formulation', 'c_svc(C=1)');
  mercer('train', path.join(DATASETS, 'haberman/haberman.csv'), '-o', made('inliers.mercer'), '--kernel', 'rbf(gamma=1)', '--scale', 'max_abs', '--formulation', 'one_class(nu=0.2)');
  mercer('train', QUERIES, '-o', made('rest.mercer'), '--kernel', 'rbf(gamma=0.001)', '--scheme', 'one-vs-rest', '--formulation', 'c_svc(C=10)');
  writeFileSync(made('wide.svm'), `${wideRows().join('\n')}\n`);
  mercer('train', made('wide.svm'), '-o', made('wide.mercer'), '--kernel', 'rbf(gamma=0.01)', '--formulation', 'c_svc(C=10)');
}

before(async () => {
  models();
  writeFileSync(made('token'), TOKEN);
  special();
  const names = ['sonar', 'digits', 'estimated', 'haberman', 'abalone', 'pictures', 'tuned', 'linear', 'inliers', 'rest', 'wide', 'quick'].map((name) => made(`${name}.mercer`));
  open = await start('serve', ['--show-supports', '--audit', '0.5', ...names]);
  closed = await start('serve', ['--token-file', made('token'), made('haberman.mercer')]);
  await openBrowser();
});

after(closeAll);

const hash = (model, view, row) => `${open}#model=${model}&view=${view}${row === undefined ? '' : `&row=${row}`}`;
const predicted = (model, file) => mercer('predict', made(`${model}.mercer`), file, '--format', 'jsonl', '--quiet').trim().split('\n').map((line) => JSON.parse(line));

test('the card says what the model is and promises', async () => {
  const { page, end } = await visit(open);
  await shows(page, 'What it promises');
  await page.selectOption('#model', 'sonar');
  await shows(page, 'polynomial(degree=2, gamma=1, coef0=1)');
  await shows(page, /every query starts here/);
  await page.selectOption('#model', 'estimated');
  await shows(page, /At most 5\s% of queries disagree .* confidence 95\s%/);
  assert.match(await page.title(), /Card · estimated/);
  await end();
});

test('the card of a tuned model: facts as they are in the file, and why this plan', async () => {
  const { page, end } = await visit(hash('tuned', 'card'));
  await shows(page, 'What it promises');
  const known = JSON.parse(mercer('inspect', made('tuned.mercer'), '--json'));
  const fact = (name) => page.locator('dt', { hasText: new RegExp(`^${name}$`) }).locator('xpath=following-sibling::dd[1]').innerText();
  // The digest is the one by which a program names the model that it means.
  const digest = await fact('Digest');
  assert.match(digest, /^[0-9a-f]{64}$/);
  const asked = async (parameters) => (await fetch(`${open}v2/models/tuned/infer`, {
    method: 'POST', body: JSON.stringify({ parameters, inputs: [{ name: 'x', shape: [1, 60], datatype: 'FP64', data: new Array(60).fill(0.5) }] }),
  })).status;
  assert.deepEqual([await asked({ digest }), await asked({ digest: digest.replace(/^./, (first) => (first === '0' ? '1' : '0')) })], [200, 409]);
  assert.equal(Number(await fact('Support vectors')), known.supports);
  assert.match(await fact('Columns'), /^60: band0, band1, .*, …$/);
  assert.equal(await fact('Kernel'), 'polynomial(degree=2, gamma=1, coef0=1)');
  assert.equal(await fact('Classes'), 'R, M');
  assert.match(await fact('Size'), /^[\d.]+ KB$/);
  const why = page.locator('h3', { hasText: 'Why this plan' }).locator('xpath=following-sibling::p[1]');
  assert.equal(await why.innerText(), `${known.tuning.reason}.`);
  assert.match(known.tuning.reason, /as fast as exact|exact is the fastest/);
  assert.equal(await fact('contract'), 'certified');
  await page.getByText('The whole record').click();
  assert.equal(JSON.parse(await page.locator('details pre').innerText()).sample.rows, known.tuning.sample.rows);
  const stages = await page.locator('.stages code').allInnerTexts();
  assert.equal(known.plan, stages.length > 1 ? `cascade(${stages.join(', ')})` : 'exact');
  await end();
});

test('a view that is chosen while the address is brought up to date is not lost', async () => {
  // The update of the address comes when the test wants it: after the click, before the page has heard of it.
  const hold = () => {
    const later = globalThis.setTimeout;
    globalThis.setTimeout = (work, ms, ...more) => (ms === 150 ? (globalThis.update = work, 0) : later(work, ms, ...more));
  };
  const { page, end } = await visit(hash('haberman', 'card'), {}, (made) => made.addInitScript(hold));
  await shows(page, 'What it promises');
  await page.evaluate(() => {
    document.querySelector('nav [data-view=play]').click();
    globalThis.update();
  });
  await page.locator('#answer').waitFor();
  assert.match(page.url(), /view=play/);
  // A link takes the row as it is, also where the address does not have it yet.
  await page.getByLabel('age, as a number').fill('44');
  await page.getByRole('link', { name: 'Watch' }).click();
  await shows(page, 'The answer is');
  assert.match(page.url(), /row=0:44,/);
  await end();
});

test('of two models that are chosen in turn the later one is shown, whichever comes first', async () => {
  const { page, end } = await visit(hash('haberman', 'card'));
  await shows(page, 'What it promises');
  let late = null;
  await page.route('**/models/abalone/card', async (route) => { late = route; });
  await page.selectOption('#model', 'abalone');
  await page.waitForFunction(() => location.hash.includes('abalone'));
  while (!late) await page.waitForTimeout(20);
  await page.selectOption('#model', 'sonar');
  await page.waitForFunction(() => document.title.includes('sonar'));
  await Promise.all([page.waitForResponse('**/models/abalone/card'), late.continue()]);
  await page.waitForTimeout(300);
  assert.match(await page.title(), /sonar/);
  assert.equal(await page.locator('#model').inputValue(), 'sonar');
  await end();
});

test('what a busy server refuses is asked again', async () => {
  const { page, end } = await visit(hash('haberman', 'card'));
  await shows(page, 'What it promises');
  let refused = 0;
  await page.route('**/infer', async (route) => {
    refused += 1;
    if (refused > 2) await route.continue();
    else await route.fulfill({ status: 429, headers: { 'Retry-After': '1' }, json: { error: 'too much work' } });
  });
  await page.getByRole('link', { name: 'Play' }).click();
  await page.locator('#answer').waitFor();
  assert.equal(refused, 3);
  await end();
});

test('text becomes rows, votes are counted as the machine counts them', async () => {
  const { page, end } = await visit(open);
  await shows(page, 'What it promises');
  const found = await page.evaluate(async () => {
    const base = document.querySelector('script').src.replace('app.js', '');
    const [rows, votes, live, supports] = await Promise.all(['rows', 'votes', 'live', 'supports'].map((name) => import(`${base}${name}.js`)));
    const input = { columns: 2, names: ['a', 'b'], target: 'kind' };
    const plain = (text, of = input) => {
      try {
        return rows.parse(text, of).map(({ values, label }) => [...values, label]);
      } catch (error) {
        return error.message;
      }
    };
    const at = (low, high) => ({ low, high });
    return {
      named: plain('kind,b,a\n"x, y",2,1\n'), bare: plain('1;2\n3;4', { columns: 2 }), labelled: plain('1 2 yes\n', { columns: 2 }),
      libsvm: plain('+1 1:5 2:-1e-3 # note\n-1 2:7\n'), zero: plain('1 0:5\n', { ...input, zeroBased: true }),
      wide: plain('1 3:5\n'), odd: plain('a,b\n1,2\n1\n'), word: plain('a,b\n1,x\n'), none: plain('\n'),
      agree: [rows.agree('+1', 1), rows.agree('1.0', '1'), rows.agree('a', 'b')],
      round: [...rows.decodeRow(rows.encodeRow([0, -1.5, 0.1]), 3)], foreign: rows.decodeRow('5:1', 3),
      // Pairs (0, 1), (0, 2), (1, 2): class 0 has both its pairs, so the open pair does not matter.
      settled: votes.votes([at(0.1, 1), at(0.1, 2), at(-1, 1)], 3, 'one_vs_one'),
      open: votes.votes([at(-1, 1), at(0.1, 2), at(0.5, 1)], 3, 'one_vs_one'),
      // All have one vote: the lowest class wins.
      tie: votes.votes([at(0.5, 1), at(-2, -1), at(0.5, 1)], 3, 'one_vs_one'),
      rest: votes.votes([at(0, 1), at(2, 3), at(2.5, 4)], 3, 'one_vs_rest').isPossible,
      quantile: live.quantile([[1, 0], [2, 0], [Infinity, 0]], [[1, 10], [2, 20], [Infinity, 20]], 0.75),
      metrics: live.parseMetrics('# HELP x\na_total{m="q\\"x",v="1"} 3\nb 0.5\n'),
      spec: supports.parseSpec('polynomial(degree=2, gamma=0.5)'),
    };
  });
  assert.deepEqual(found.named, [[1, 2, 'x, y']]);
  assert.deepEqual(found.bare, [[1, 2, undefined], [3, 4, undefined]]);
  assert.deepEqual(found.labelled, [[1, 2, 'yes']]);
  assert.deepEqual(found.libsvm, [[5, -0.001, '+1'], [0, 7, '-1']]);
  assert.deepEqual(found.zero, [[5, 0, '1']]);
  assert.deepEqual([found.wide, found.odd, found.word, found.none], [
    "line 1: column 3 is not one of the model's 2", 'line 3 has 1 fields, the first has 2', "line 2: 'x' is no number", 'there is no row in the text',
  ]);
  assert.deepEqual(found.agree, [true, true, false]);
  assert.deepEqual([found.round, found.foreign], [[0, -1.5, 0.1], null]);
  assert.deepEqual(found.settled.isPossible, [true, false, false]);
  assert.ok(found.settled.pairs[2].isOpen && !found.settled.pairs[2].matters);
  assert.deepEqual(found.open.isPossible, [true, true, false]);
  assert.ok(found.open.pairs[0].matters && !found.open.pairs[2].isOpen);
  assert.deepEqual([found.tie.isPossible, found.tie.leader], [[true, false, false], 0]);
  assert.deepEqual(found.rest, [false, true, true]);
  assert.equal(found.quantile, 1.5);
  assert.deepEqual(found.metrics, [{ name: 'a_total', labels: { m: 'q"x', v: '1' }, value: 3 }, { name: 'b', labels: {}, value: 0.5 }]);
  assert.deepEqual(found.spec, { name: 'polynomial', degree: 2, gamma: 0.5 });
  await end();
});

test('a pasted row gets the answer of predict, and the address holds it', async () => {
  const { page, end } = await visit(hash('sonar', 'play'));
  const lines = readFileSync(SONAR, 'utf8').split('\n');
  await page.getByLabel('Or paste rows').fill(`${lines[0]}\n${lines[120]}\n`);
  await page.getByRole('button', { name: 'Use this text' }).click();
  const expected = predicted('sonar', SONAR)[119];
  await page.locator('#answer', { hasText: expected.label }).waitFor();
  await shows(page, new RegExp(`its label in the file is ${lines[120].split(',').at(-1)}`));
  await shows(page, expected.certainty);
  // The address follows a little later; before, it holds the row that the view began with.
  const first = Number(lines[120].split(',')[0]);
  await page.waitForFunction((value) => location.hash.includes(`row=0:${value},`), first);
  const address = page.url();
  await page.goto('about:blank');
  await page.goto(address);
  await page.locator('#answer', { hasText: expected.label }).waitFor();
  assert.equal(await page.getByLabel('band0, as a number', { exact: true }).inputValue(), String(first));
  // What cannot be read is said.
  await page.getByLabel('Or paste rows').fill('1,2,x');
  await page.getByRole('button', { name: 'Use this text' }).click();
  await page.getByRole('alert').filter({ hasText: 'the rows have 3 columns, the model has 60' }).waitFor();
  await end();
});

test('sliders move by keyboard, one request is in flight, the latest wins', async () => {
  const { page, end } = await visit(hash('haberman', 'play'));
  await page.locator('#answer').waitFor();
  let inFlight = 0;
  let most = 0;
  let last = null;
  // Slow answers, so that many changes come while one is under way.
  await page.route('**/infer', async (route) => {
    inFlight += 1;
    most = Math.max(most, inFlight);
    last = route.request().postDataBuffer();
    const reply = await route.fetch();
    await new Promise((resolve) => { setTimeout(resolve, 60); });
    await route.fulfill({ response: reply });
    inFlight -= 1;
  });
  const slider = page.getByLabel('age', { exact: true });
  const before = await slider.inputValue();
  await slider.focus();
  for (let press = 0; press < 12; press += 1) await page.keyboard.press('ArrowRight');
  assert.equal(Number(await slider.inputValue()), Number(before) + 12);
  const value = Number(await page.getByLabel('age, as a number').inputValue());
  await page.waitForTimeout(400);
  assert.equal(most, 1);
  const sent = last.buffer.slice(last.byteOffset + last.length - 24, last.byteOffset + last.length);
  assert.equal(new Float64Array(sent)[0], value);
  // With the mouse: the answer follows while the button is down.
  const box = await slider.boundingBox();
  const asked = page.waitForRequest('**/infer');
  const place = Number(value - (await slider.getAttribute('min'))) / (await slider.evaluate(({ min, max }) => max - min));
  await page.mouse.move(box.x + 8 + (box.width - 16) * place, box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.9, box.y + box.height / 2, { steps: 10 });
  await asked;
  const dragged = Number(await slider.inputValue());
  assert.ok(dragged > value, `${dragged} after a drag from ${value}`);
  await page.mouse.up();
  assert.equal(Number(await page.getByLabel('age, as a number').inputValue()), dragged);
  await page.waitForTimeout(400);
  assert.equal(new Float64Array(last.buffer.slice(last.byteOffset + last.length - 24, last.byteOffset + last.length))[0], dragged);
  await page.waitForFunction((age) => location.hash.includes(`row=0:${age},`), dragged);
  await end();
});

test('a file that is dropped is taken; one that misses its place does nothing', async () => {
  const { page, end } = await visit(hash('sonar', 'play'));
  await page.locator('#answer').waitFor();
  const text = readFileSync(SONAR, 'utf8');
  const drop = (selector) => page.evaluate(([where, words]) => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([words], 'sonar.csv', { type: 'text/csv' }));
    const zone = document.querySelector(where);
    const events = ['dragenter', 'dragover', 'drop'].map((type) => new DragEvent(type, { bubbles: true, cancelable: true, dataTransfer }));
    return events.map((event) => { zone.dispatchEvent(event); return event.defaultPrevented; });
  }, [selector, text]);
  // A browser opens a file that is dropped, unless the page says that it does not want that.
  assert.deepEqual((await drop('h2')).slice(1), [true, true]);
  assert.equal(await page.getByText(/Row 1 of 208/).count(), 0);
  await drop('.drop');
  const label = text.split('\n')[1].split(',').at(-1);
  await shows(page, new RegExp(`Row 1 of 208, its label in the file is ${label}`));
  await page.locator('#answer', { hasText: predicted('sonar', SONAR)[0].label }).waitFor();
  await end();
});

test('a file is stepped through, and digits are drawn', async () => {
  const { page, end } = await visit(hash('digits', 'play'));
  const expected = predicted('digits', QUERIES);
  await page.locator('input[type=file]').setInputFiles(QUERIES);
  await shows(page, /Row 1 of 597, its label in the file is 7/);
  await page.locator('#answer', { hasText: expected[0].label }).waitFor();
  await page.getByRole('button', { name: 'Next' }).click();
  await page.getByRole('button', { name: 'Next' }).click();
  await shows(page, /Row 3 of 597, its label in the file is 3/);
  await page.locator('#answer', { hasText: expected[2].label }).waitFor();
  await page.getByRole('button', { name: 'Clear' }).click();
  await page.waitForFunction(() => location.hash.endsWith('row='));
  const pad = page.locator('canvas.pad');
  const box = await pad.boundingBox();
  await page.mouse.move(box.x + box.width * 0.5, box.y + box.height * 0.1);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.5, box.y + box.height * 0.9, { steps: 8 });
  await page.mouse.up();
  await page.locator('#answer', { hasText: '1' }).waitFor();
  await page.getByRole('button', { name: 'Clear' }).click();
  await pad.focus();
  for (const key of ['ArrowLeft', ' ', 'ArrowDown', ' ']) await page.keyboard.press(key);
  await page.waitForFunction(() => /row=.*35:16.*43:16/.test(location.hash));
  await end();
});

test('pictures of 28 by 28: drawn, explained by pairs, with pictures of supports', async () => {
  const { page, end } = await visit(hash('pictures', 'play'));
  const expected = predicted('pictures', made('pictures.csv'));
  await page.locator('input[type=file]').setInputFiles(made('pictures.csv'));
  await shows(page, /Row 1 of 240, its label in the file is n7/);
  await page.locator('#answer', { hasText: expected[0].label }).waitFor();
  assert.equal(await page.locator('canvas.pad').evaluate((pad) => pad.width), 28);
  await page.getByRole('button', { name: 'Clear' }).click();
  const box = await page.locator('canvas.pad').boundingBox();
  await page.mouse.move(box.x + box.width * 0.5, box.y + box.height * 0.15);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.5, box.y + box.height * 0.85, { steps: 12 });
  await page.mouse.up();
  await page.waitForFunction(() => /row=.*:2\d\d/.test(location.hash));
  const drawn = Number(await page.locator('canvas.pad').evaluate((pad) => {
    const { data } = pad.getContext('2d').getImageData(0, 0, 28, 28);
    return Array.from({ length: 784 }, (_, at) => data[4 * at]).filter((shade) => shade < 128).length;
  }));
  assert.ok(drawn > 30 && drawn < 200, `${drawn} dark pixels`);
  await page.getByRole('link', { name: 'Watch' }).click();
  await page.locator('.supports canvas').nth(7).waitFor();
  assert.equal(await page.locator('.supports canvas').first().evaluate((picture) => picture.width), 28);
  await page.getByLabel('Step', { exact: true }).focus();
  await page.keyboard.press('Home');
  await shows(page, /Pairs that still matter: \d+/);
  await end();
});

test('the page works over TLS', async () => {
  const [key, certificate] = [made('key.pem'), made('certificate.pem')];
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2', '-subj', '/CN=localhost',
    '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1', '-keyout', key, '-out', certificate], { stdio: 'ignore' });
  const secure = await start('serve', ['--tls-cert', certificate, '--tls-key', key, made('haberman.mercer')], { scheme: 'https' });
  const { page, end } = await visit(`${secure}#model=haberman&view=play`, { ignoreHTTPSErrors: true });
  await page.locator('#answer').waitFor();
  assert.ok(await page.evaluate(() => isSecureContext && location.protocol === 'https:'));
  await page.getByRole('link', { name: 'Card' }).click();
  await shows(page, 'What it promises');
  await end();
});

test('all files together are small', () => checkBytes(open));

test('the range closes step by step', async () => {
  const { page, end } = await visit(hash('sonar', 'watch'));
  await shows(page, /less work than the exact evaluation: an easy query/);
  const step = page.getByLabel('Step', { exact: true });
  const steps = Number(await step.getAttribute('max'));
  assert.ok(steps > 3);
  await shows(page, 'the label cannot change any more');
  assert.equal(await page.locator('line.proof').count(), steps);
  assert.equal(await page.locator('line.settled').count(), 1);
  await step.focus();
  await page.keyboard.press('Home');
  await shows(page, `Step 1 of ${steps}`);
  await shows(page, 'both labels are possible');
  assert.equal(await page.locator('line.proof[opacity="0.13"]').count(), steps - 1);
  await page.getByRole('button', { name: 'Play', exact: false }).click();
  await shows(page, `Step ${steps} of ${steps}`);
  await shows(page, /Of \d+ support vectors these weigh most/);
  assert.equal(await page.locator('.supports li').count(), 8);
  // A row that is a support is most similar to itself, also after the scaling of the model.
  await page.goto(hash('haberman', 'watch', '0:33,1:60,2:0'));
  await page.locator('.supports li', { hasText: /age 33, year 60, nodes 0.*similarity 1$/ }).waitFor();
  await end();
});

test('a query that one stage settles has no steps to go through, and is easy', async () => {
  const { page, end } = await visit(hash('quick', 'watch'));
  await shows(page, /The stage low_precision settled it, before the exact evaluation: an easy query/);
  await shows(page, 'Step 1 of 1');
  assert.equal(await page.getByRole('button', { name: 'Play', exact: false }).isVisible(), false);
  await page.goto(hash('sonar', 'watch'));
  await page.getByRole('button', { name: 'Play', exact: false }).waitFor();
  await end();
});

test('changes of the leading label are marked, and the cost so far stands beside exact', async () => {
  const lines = readFileSync(SONAR, 'utf8').trim().split('\n').slice(1);
  const explained = (row) => JSON.parse(mercer('explain', made('sonar.mercer'), SONAR, '--row', String(row), '--json'));
  const changesOf = ({ steps }) => steps.map(({ low, high }) => low / 2 + high / 2 > 0).flatMap((side, at, sides) => (at > 0 && side !== sides[at - 1] ? [at] : []));
  const row = lines.findIndex((_, at) => changesOf(explained(at + 1)).length > 1) + 1;
  assert.ok(row > 0, 'a row whose leading label changes twice');
  const told = explained(row);
  const changes = changesOf(told);
  const values = lines[row - 1].split(',').slice(0, -1).map((value, column) => `${column}:${Number(value)}`).filter((pair) => !pair.endsWith(':0'));
  const { page, end } = await visit(hash('sonar', 'watch', values.join()));
  await page.locator('#explained', { hasText: told.label }).waitFor();
  assert.equal(await page.locator('path.change').count(), changes.length);
  const step = page.getByLabel('Step', { exact: true });
  for (const at of [changes[0], changes[0] - 1]) {
    await step.fill(String(at + 1));
    await shows(page, `Step ${at + 1} of ${told.steps.length}`);
    assert.equal(await page.getByText('the leading label has changed').count(), at === changes[0] ? 1 : 0);
  }
  // Each diamond is at the height of its step.
  const heights = await page.locator('line.proof').evaluateAll((all) => all.map((line) => Number(line.getAttribute('y1'))));
  const diamonds = await page.locator('path.change').evaluateAll((all) => all.map((path) => Number(path.getAttribute('d').match(/ ([\d.]+)l/)[1]) + 6));
  diamonds.forEach((height, at) => assert.ok(Math.abs(height - heights[changes[at]]) < 0.01, `${height}`));
  const bars = page.getByRole('img', { name: 'cost so far against the exact evaluation' });
  const lengths = async () => (await bars.locator('rect').evaluateAll((all) => all.map((rect) => Number(rect.getAttribute('width')))));
  for (const at of [0, told.steps.length - 1]) {
    await step.fill(String(at + 1));
    await shows(page, `Step ${at + 1} of ${told.steps.length}`);
    const { cost } = told.steps[at];
    const [soFar, exact] = await lengths();
    assert.ok(Math.abs(soFar / exact - cost / told.exact_cost) < 0.01, `${soFar} of ${exact} for ${cost} of ${told.exact_cost}`);
    assert.match(await bars.textContent(), new RegExp(`so far${String(cost).replace(/\B(?=(\d{3})+$)/g, '\u202f')}, `));
  }
  await end();
});

test('several classes: pairs that matter, pictures of supports; estimates are dashed', async () => {
  const { page, end } = await visit(hash('digits', 'watch'));
  await shows(page, 'No pair matters any more');
  await page.locator('.supports canvas').nth(7).waitFor();
  await page.getByLabel('Step', { exact: true }).focus();
  await page.keyboard.press('Home');
  await shows(page, /Pairs that still matter: \d+/);
  await shows(page, '10 of 10 classes are still possible');
  await page.selectOption('#model', 'estimated');
  await shows(page, /Estimate: the smallest score of the leading class/);
  assert.equal(await page.locator('main svg line[stroke-dasharray="6 4"]').count(), 1);
  await end();
});

test('maps of labels, cost and certainty; a click chooses the row', async () => {
  const { page, end } = await visit(hash('haberman', 'hard'));
  await shows(page, /2.304 answers: 100\s% exact/);
  assert.ok(await coloursOf(page.locator('#map-labels')) >= 4, 'two labels and the ring');
  const before = page.url();
  await page.locator('#map-labels').click({ position: { x: 30, y: 30 } });
  await page.waitForFunction((old) => location.href !== old, before);
  await page.selectOption('#model', 'abalone');
  await shows(page, /2.304 answers/);
  // Where some answers are certified and others exact, the certainty map has both, and cost is another map.
  await page.selectOption('#model', 'sonar');
  await shows(page, /2.304 answers: .*certified/);
  await page.selectOption('#model', 'digits');
  await page.waitForFunction(() => document.title.includes('digits'));
  await shows(page, /2.304 answers: .*certified/);
  assert.ok(await coloursOf(page.locator('#map-costs')) > 6, 'many costs and the ring');
  const names = await page.locator('section', { has: page.locator('#map-certainties') }).locator('.legend li').allInnerTexts();
  assert.ok(names.includes('certified'), names.join());
  assert.ok(await coloursOf(page.locator('#map-certainties')) >= names.length + 2, 'certainties and the ring');
  await page.getByLabel('Upwards').selectOption('principal direction 2');
  await shows(page, /Upwards: principal direction 2 from/);
  await end();
});

test('a model without supports, one of one class, and one score for each class: every view', async () => {
  const { page, end } = await visit(hash('linear', 'watch'));
  await shows(page, 'This model keeps no support vectors');
  await page.locator('#explained', { hasText: /[RM]/ }).waitFor();
  await page.getByRole('link', { name: 'Play' }).click();
  await shows(page, 'The model does not say which values are usual');
  const [first] = predicted('linear', SONAR);
  await page.locator('input[type=file]').setInputFiles(SONAR);
  await page.locator('#answer', { hasText: first.label }).waitFor();
  await page.getByRole('link', { name: 'Where it is hard' }).click();
  await shows(page, /2.304 answers/);
  await page.selectOption('#model', 'inliers');
  await page.waitForFunction(() => document.title.includes('inliers'));
  await shows(page, /2.304 answers/);
  const names = await page.locator('section', { has: page.locator('#map-labels') }).locator('.legend li').allInnerTexts();
  assert.deepEqual(names, ['like the training data', 'new']);
  assert.ok(await coloursOf(page.locator('#map-labels')) >= 4, 'both kinds and the ring');
  await page.getByRole('link', { name: 'Watch' }).click();
  await shows(page, /these weigh most in the decision between like the training data and new/);
  // A support is most similar to itself, also under a scaling without centres.
  assert.match(await page.locator('.supports li small').first().innerText(), /^similarity (1|0\.\d+)$/);
  await page.selectOption('#model', 'rest');
  await page.waitForFunction(() => document.title.includes('rest'));
  await shows(page, / is possible: the label cannot change any more/);
  const label = await page.locator('#explained').innerText();
  await shows(page, `these weigh most in the decision between ${label} and the others`);
  await shows(page, `Only ${label} is possible: the label cannot change any more`);
  await page.getByRole('link', { name: 'Card' }).click();
  await shows(page, 'one of 10 classes');
  await end();
});

test('which support vectors were searched is said', async () => {
  const { page, end } = await visit(hash('haberman', 'card'));
  await shows(page, 'What it promises');
  const { supports } = await (await fetch(`${open}v2/models/haberman/card`)).json();
  // More than the page asks for: the requests for the others find none.
  await page.route('**/models/haberman/supports*', async (route) => {
    const reply = await (await route.fetch()).json();
    await route.fulfill({ json: { ...reply, supports: reply.supports.slice(0, 100) } });
  });
  await page.route('**/models/haberman/card', async (route) => {
    const card = await (await route.fetch()).json();
    await route.fulfill({ json: { ...card, supports: 123456 } });
  });
  await page.goto('about:blank');
  await page.goto(hash('haberman', 'watch'));
  const seen = 100 * Math.ceil(supports / 100);
  await shows(page, new RegExp(`Of the first \\d+ of 123.456 support vectors these weigh most`));
  const told = Number(/Of the first (\d+) of/.exec(await page.locator('main').innerText())[1]);
  assert.ok(told <= seen && told >= Math.min(supports, 100), `${told}`);
  await end();
});

test('rows of 50,000 columns are sent as their values, and their largest columns are listed', async () => {
  const { page, end } = await visit(hash('wide', 'card'));
  await shows(page, 'What it promises');
  let [sent, most] = [0, 0];
  page.on('request', (request) => {
    const bytes = request.postDataBuffer()?.length ?? 0;
    if (/infer|explain/.test(request.url())) { sent += bytes; most = Math.max(most, bytes); }
  });
  const expected = predicted('wide', made('wide.svm'));
  await page.getByRole('link', { name: 'Play' }).click();
  await page.locator('input[type=file]').setInputFiles(made('wide.svm'));
  await page.locator('#answer', { hasText: expected[0].label }).waitFor();
  await shows(page, '12 of 50\u202f000 are shown, the largest values of the row first');
  assert.equal(await page.locator('.slider').count(), 12);
  await page.getByRole('button', { name: 'Next' }).click();
  await page.locator('#answer', { hasText: expected[1].label }).waitFor();
  assert.ok(most < 2000, `${most} bytes for a row`);
  await page.getByRole('link', { name: 'Watch' }).click();
  await page.locator('#explained', { hasText: expected[1].label }).waitFor();
  await page.locator('.supports li', { hasText: /similarity 1$/ }).first().waitFor();
  assert.match(await page.locator('.supports li').first().innerText(), /^column 1[01] 2, column/);
  sent = 0;
  await page.getByRole('link', { name: 'Where it is hard' }).click();
  await shows(page, /576 answers: /);
  assert.ok(sent < 1e6, `${sent} bytes for a map`);
  assert.equal(await page.getByLabel('Upwards').locator('option').count(), 200);
  await page.getByLabel(/Columns by name; 200 of/).fill('column 49999');
  await page.getByLabel('Upwards').selectOption('column 49999');
  await shows(page, /Upwards: column 49999 from/);
  await shows(page, /576 answers: /);
  // The row of zeros has no values to send.
  await page.getByRole('link', { name: 'Play' }).click();
  await page.waitForFunction(() => location.hash.includes('view=play'));
  await page.goto(hash('wide', 'play', ''));
  await page.locator('#answer').waitFor();
  await page.waitForFunction(() => location.hash.endsWith('row='));
  await end();
});

/** A server in between that gives a batch in two halves: the second when `later` is called, or not at all. */
async function inHalves() {
  let later = null;
  const between = createServer((request, reply) => {
    const { host } = new URL(open);
    const headers = { ...request.headers, host, ...(request.headers.origin ? { origin: `http://${host}` } : {}) };
    request.pipe(ask(`${open}${request.url.slice(1)}`, { method: request.method, headers }, (answer) => {
      delete answer.headers['content-length'];
      reply.writeHead(answer.statusCode, answer.headers);
      if (!/\/batch\?/.test(request.url)) { answer.pipe(reply); return; }
      const parts = [];
      answer.on('data', (part) => parts.push(part)).on('end', () => {
        const lines = Buffer.concat(parts).toString().trim().split('\n');
        reply.write(`${lines.slice(0, 300).join('\n')}\n`);
        later = (end) => (end === 'cut' ? reply.destroy() : reply.end(end ?? lines.slice(300).join('\n')));
      });
    }));
  });
  await new Promise((resolve) => { between.listen(0, '127.0.0.1', resolve); });
  const come = async (end) => { while (!later) await new Promise((resolve) => { setTimeout(resolve, 20); }); later(end); later = null; };
  after(() => between.close());
  return { address: `http://127.0.0.1:${between.address().port}/`, come };
}

test('answers of a batch are shown as they come, and kept when it ends early', async () => {
  const { address, come } = await inHalves();
  const { page, end } = await visit(`${address}#model=digits&view=batch`);
  const expected = predicted('digits', QUERIES);
  // The same file again and again, as a user chooses it.
  const take = async () => {
    const [chooser] = await Promise.all([page.waitForEvent('filechooser'), page.locator('input[type=file]').click()]);
    await chooser.setFiles(QUERIES);
  };
  const rows = page.getByRole('region', { name: 'answers' }).locator('tbody tr');
  const file = async () => {
    const [download] = await Promise.all([page.waitForEvent('download'), page.locator('#download').click()]);
    return readFileSync(await download.path(), 'utf8').trim().split('\n').slice(1);
  };
  await shows(page, 'Drop a file of rows');
  await take();
  // Half of them are there: the table, the counts, what differs, and a way to stop.
  await page.locator('#batch-status', { hasText: '300 rows: ' }).waitFor();
  assert.equal(await rows.count(), 200);
  assert.equal(await rows.nth(1).locator('td').nth(1).innerText(), expected[1].label);
  await shows(page, /Answers that differ from the label column: \d+/);
  assert.equal(await page.locator('#download').count(), 0);
  await page.getByRole('button', { name: 'Stop' }).click();
  await shows(page, /^Stopped\. 300 rows: /);
  await shows(page, 'Download the 300 answers that came');
  const came = await file();
  assert.deepEqual(came.map((line) => line.split(',').slice(0, 2)), expected.slice(0, 300).map(({ row, label }) => [String(row), label]));
  await come();
  // An error in the answers, and a server that goes away.
  for (const [what, said] of [['{"error":"line 301 is wrong"}\n', 'line 301 is wrong'], ['cut', /network|fetch/i]]) {
    await take();
    await page.locator('#batch-status', { hasText: /^300 rows: / }).waitFor();
    await come(what);
    await page.getByRole('alert').filter({ hasText: said }).waitFor();
    await shows(page, /^Ended early\. 300 rows: /);
    assert.equal((await file()).length, 300);
    await page.locator('#download').evaluate((link) => link.remove());
  }
  await take();
  await page.locator('#batch-status', { hasText: /^300 rows: / }).waitFor();
  await come();
  await shows(page, 'Download all answers');
  await shows(page, /^597 rows: /);
  assert.equal((await file()).length, 597);
  await end(/ERR_|Failed to load/);
});

test('a file packed with gzip is answered and compared', async () => {
  const { page, end } = await visit(hash('digits', 'batch'));
  writeFileSync(made('queries.svm.gz'), gzipSync(readFileSync(QUERIES)));
  await page.locator('input[type=file]').setInputFiles(made('queries.svm.gz'));
  await shows(page, /^597 rows: .* differ from the label column/);
  const labels = readFileSync(QUERIES, 'utf8').trim().split('\n').map((line) => line.split(' ')[0]);
  const wrong = predicted('digits', QUERIES).filter((answer, at) => answer.label !== labels[at]).length;
  await shows(page, `Answers that differ from the label column: ${wrong}`);
  await end();
});

test('a batch streams to a table and a file, and lists disagreements', async () => {
  const { page, end } = await visit(hash('digits', 'batch'));
  await page.locator('input[type=file]').setInputFiles(QUERIES);
  const labels = readFileSync(QUERIES, 'utf8').trim().split('\n').map((line) => line.split(' ')[0]);
  const expected = predicted('digits', QUERIES);
  const wrong = expected.filter((answer, at) => answer.label !== labels[at]).length;
  await shows(page, `Answers that differ from the label column: ${wrong}`);
  await shows(page, /597 rows/);
  const [download] = await Promise.all([page.waitForEvent('download'), page.locator('#download').click()]);
  const lines = readFileSync(await download.path(), 'utf8').trim().split('\n');
  assert.equal(lines[0], 'row,label,low,high,certainty,cost');
  assert.deepEqual(lines.slice(1), expected.map(({ row, label, low, high, certainty, cost }) => [row, label, low, high, certainty, cost].join()));
  // A table with a label column that is found by its name in the training data.
  await page.selectOption('#model', 'sonar');
  await page.waitForFunction(() => document.title.includes('sonar'));
  await page.locator('input[type=file]').setInputFiles(SONAR);
  const truth = readFileSync(SONAR, 'utf8').trim().split('\n').slice(1).map((line) => line.split(',').at(-1));
  const differing = predicted('sonar', SONAR).filter((answer, at) => answer.label !== truth[at]);
  assert.ok(differing.length > 0, 'some answers are wrong');
  await shows(page, `Answers that differ from the label column: ${differing.length}`);
  const listed = await page.getByRole('region', { name: 'disagreements' }).locator('tbody tr').evaluateAll((rows) => rows.map((row) => [...row.cells].slice(0, 3).map((cell) => cell.textContent)));
  assert.deepEqual(listed, differing.map(({ row, label }) => [String(row), truth[row - 1], label]));
  await page.selectOption('#model', 'digits');
  await page.waitForFunction(() => document.title.includes('digits'));
  // Another kind of file, and one that is wrong.
  mercer('convert', QUERIES, '-o', made('q.parquet'));
  await page.getByLabel('Label column of the table').fill('label');
  await page.locator('input[type=file]').setInputFiles(made('q.parquet'));
  await page.waitForFunction(() => document.querySelectorAll('section table').length === 2);
  await shows(page, `Answers that differ from the label column: ${wrong}`);
  await page.getByLabel('Label column of the table').fill('');
  writeFileSync(made('wrong.csv'), 'a,b\n1,2\n');
  await page.locator('input[type=file]').setInputFiles(made('wrong.csv'));
  await page.locator('#problem', { hasText: 'column' }).waitFor();
  await end(/400/);
});

test('live numbers follow the queries', async () => {
  const { page, end } = await visit(hash('estimated', 'batch'));
  await page.locator('input[type=file]').setInputFiles(QUERIES);
  await shows(page, 'Download all answers');
  await page.getByRole('link', { name: 'Live' }).click();
  await page.locator('.tile', { hasText: /Queries answered\d{3}/ }).waitFor();
  await shows(page, /student/);
  await shows(page, /answers were asked again exactly: the share with another label lies between/);
  await shows(page, 'all models, 30 s');
  // Requests while the page looks: rate, quantiles and the timeline of the audit follow.
  const tile = (name) => page.locator('.tile', { has: page.getByText(name, { exact: true }) }).locator('b');
  const asks = setInterval(() => page.evaluate(async () => {
    const values = Array.from({ length: 20 * 64 }, (_, at) => at % 16);
    const inputs = [{ name: 'x', shape: [20, 64], datatype: 'FP64', data: values }];
    await fetch('v2/models/estimated/infer', { method: 'POST', body: JSON.stringify({ inputs }) });
  }).catch(() => {}), 100);
  try {
    await page.waitForFunction(() => Number(document.querySelector('.tile b').textContent) > 0);
    await page.waitForFunction(() => document.querySelectorAll('.tile b')[2].textContent.endsWith(' ms'));
    const [half, most] = [await tile('Request, p50').innerText(), await tile('Request, p99').innerText()].map((words) => Number(words.replace(' ms', '')));
    assert.ok(half > 0 && half <= most, `${half} ms and ${most} ms`);
    const lines = page.getByRole('img', { name: 'bounds of the share of disagreements' }).locator('polyline');
    await page.waitForFunction(() => [...document.querySelectorAll('svg[aria-label^=bounds] polyline')].every((line) => line.getAttribute('points').split(' ').length > 3));
    assert.equal(await lines.count(), 2);
    const [upper, lower] = await lines.evaluateAll((all) => all.map((line) => Number(line.getAttribute('points').split(' ').at(-1).split(',')[1])));
    assert.ok(upper <= lower, 'the high bound is above the low one');
  } finally {
    clearInterval(asks);
  }
  assert.equal(await tile('Refused by load').innerText(), '0');
  await end();
});

test('refused requests are counted', async () => {
  const address = await start('serve', ['--queue-ms', '0.001', made('digits.mercer')]);
  const { page, end } = await visit(`${address}#model=digits&view=live`);
  const refused = await page.evaluate(async () => {
    const inputs = [{ name: 'x', shape: [600, 64], datatype: 'FP64', data: Array.from({ length: 600 * 64 }, (_, at) => (at * 7) % 17) }];
    const ask = () => fetch('v2/models/digits/infer', { method: 'POST', body: JSON.stringify({ inputs }) });
    const replies = await Promise.all(Array.from({ length: 40 }, ask));
    return replies.filter(({ status }) => status === 429).length;
  });
  assert.ok(refused > 0, 'the server had too much to do');
  await page.locator('.tile', { hasText: new RegExp(`Refused by load${refused}since`) }).waitFor();
  await end();
});

test('a token is asked for, and kept in memory only', async () => {
  const { page, end } = await visit(closed);
  await page.locator('#token-text').fill('not the right one');
  await page.getByRole('button', { name: 'Go on' }).click();
  await shows(page, 'The server did not accept that token.');
  await page.locator('#token-text').fill(TOKEN);
  await page.keyboard.press('Enter');
  await shows(page, 'What it promises');
  const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href]));
  assert.ok(!kept.includes(TOKEN));
  // This server does not show supports, and the page does not ask for them.
  await page.getByRole('link', { name: 'Watch' }).click();
  await shows(page, /with --show-supports it would/);
  await page.getByRole('link', { name: 'Play' }).click();
  await shows(page, /The server does not say which values are usual/);
  await page.reload();
  await page.locator('#token-text').waitFor();
  await end(/401/);
});

test('a finger draws, moves sliders and chooses places of maps', async () => {
  const { page, end } = await visit(hash('digits', 'play'), TOUCH);
  await page.locator('#answer').waitFor();
  await page.getByRole('button', { name: 'Clear' }).tap();
  await page.waitForFunction(() => location.hash.endsWith('row='));
  const top = () => page.evaluate(() => scrollY);
  await page.locator('canvas.pad').scrollIntoViewIfNeeded();
  const before = await top();
  await swipe(page, page.locator('canvas.pad'), [0.5, 0.1], [0.5, 0.3], [0.5, 0.5], [0.5, 0.7], [0.5, 0.9]);
  await page.locator('#answer', { hasText: '1' }).waitFor();
  assert.equal(await top(), before, 'the page does not scroll below the pen');
  await page.goto(hash('haberman', 'play', '0:40,1:60'));
  await page.waitForFunction(() => document.title.includes('haberman'));
  const slider = page.getByLabel('age', { exact: true });
  const share = await slider.evaluate(({ min, max, value }) => (value - min) / (max - min));
  await swipe(page, slider, [share, 0.5], [share + 0.1, 0.5], [0.7, 0.5], [0.9, 0.5]);
  assert.ok(Number(await slider.inputValue()) > 60, await slider.inputValue());
  await page.waitForFunction((age) => location.hash.includes(`row=0:${age},`), await slider.inputValue());
  await page.getByRole('link', { name: 'Where it is hard' }).tap();
  await shows(page, /2.304 answers/);
  const old = page.url();
  await page.locator('#map-costs').tap({ position: { x: 40, y: 60 } });
  await page.waitForFunction((url) => location.href !== url, old);
  await end();
});

test('every view is accessible, in light, dark and on a phone', async () => {
  for (const [name, options, width] of LOOKS) {
    const { page, end } = await visit(hash('digits', 'card'), options);
    for (const [model, views] of [['digits', VIEWS], ['sonar', ['play', 'watch', 'hard']], ['pictures', ['play', 'watch']], ['tuned', ['card']], ['wide', ['play', 'watch', 'hard']]]) {
      for (const view of views) {
        await page.goto(hash(model, view));
        await page.locator('main h2').waitFor();
        await page.waitForTimeout(view === 'hard' ? 2000 : 500);
        if (view === 'batch') {
          await page.locator('input[type=file]').setInputFiles(QUERIES);
          await shows(page, 'Download all answers');
        }
        await checkView(page, `${name}-${model}-${view}`, width);
      }
    }
    await end();
  }
});

test('every view is reached and used by keyboard alone', async () => {
  const { page, end } = await visit(hash('digits', 'card'));
  await shows(page, 'What it promises');
  const press = (...keys) => keys.reduce((done, key) => done.then(() => page.keyboard.press(key)), Promise.resolve());
  const go = async (name, title = name) => {
    await tabTo(page, page.getByRole('link', { name }));
    await press('Enter');
    await page.getByRole('heading', { name: title, level: 2 }).waitFor();
  };
  await tabTo(page, page.getByRole('link', { name: 'To the content' }));
  await press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
  await tabTo(page, page.getByRole('region', { name: 'words of this page' }));
  await page.reload();
  await shows(page, 'What it promises');
  await tabTo(page, page.locator('#model'));
  await page.keyboard.type('sonar');
  await page.waitForFunction(() => document.title.includes('sonar'));
  await go('Play');
  const slider = page.getByLabel('band2', { exact: true });
  await tabTo(page, slider);
  await press('Home');
  await page.waitForFunction(() => document.querySelector('[aria-label="band2, as a number"]').value === document.querySelector('[aria-label=band2]').min);
  await page.reload();
  await go('Watch', 'Watch the range close');
  await tabTo(page, page.getByRole('button', { name: 'Play' }));
  await press('Enter');
  await tabTo(page, page.getByLabel('Step', { exact: true }));
  await press('Home');
  await shows(page, /Step 1 of/);
  await page.reload();
  await go('Where', 'Where it is hard');
  await shows(page, /2.304 answers/);
  await tabTo(page, page.getByLabel('Upwards'));
  await press('ArrowDown');
  await shows(page, /Upwards: band\d+ from/);
  await tabTo(page, page.locator('#map-costs'));
  const old = page.url();
  await press('ArrowRight', 'ArrowUp');
  await page.waitForFunction((url) => location.href !== url, old);
  await page.reload();
  await go('Batch');
  await tabTo(page, page.locator('input[type=file]'));
  // Not every Chromium opens it by Enter.
  const [chooser] = await Promise.all([page.waitForEvent('filechooser'), press('Space')]);
  await chooser.setFiles(SONAR);
  await shows(page, 'Download all answers');
  await tabTo(page, page.locator('#download'));
  await Promise.all([page.waitForEvent('download'), press('Enter')]);
  await tabTo(page, page.getByRole('region', { name: 'answers', exact: true }));
  await page.reload();
  await go('Live');
  await shows(page, 'Queries per second');
  await page.reload();
  await go('Card');
  await shows(page, 'What it promises');
  await end();
});
