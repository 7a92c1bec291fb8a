// Reports in a real browser: no error, no request elsewhere, accessible, in light, dark and on a phone; drawings by what they show.
// `cargo xtask test --only page` runs it.

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { checkView, closeAll, DATASETS, LOOKS, made, mercer, openBrowser, visit } from '../../mercer-server/page/tests/support.mjs';

const QUERIES = path.join(DATASETS, 'digits/queries.svm');
const SONAR = path.join(DATASETS, 'sonar/sonar.csv');
const report = (name) => pathToFileURL(made(`${name}.html`)).href;
/** What the command says of the update of `update.html`. */
let updated;
const numbers = (text) => text.split('\u202f').join('');

before(async () => {
  await openBrowser();
  mercer('demo', '--report', made('demo.html'));
  mercer('import', path.join(DATASETS, 'digits/digits.model'), '-o', made('d.mercer'));
  mercer('tune', made('d.mercer'), '--sample', QUERIES, '--contract', 'certified', '--coverage', '0.9', '--time-limit', '3s', '-o', made('fast.mercer'), '--report', made('tune.html'));
  mercer('compile', made('d.mercer'), '--plan', 'cascade(student(24), low_precision, exact)', '--sample', QUERIES, '--eps', '0.05', '-o', made('estimated.mercer'));
  mercer('explain', made('estimated.mercer'), QUERIES, '--row', '1', '--report', made('explain-digits.html'));
  mercer('train', SONAR, '-o', made('s.mercer'), '--kernel', 'polynomial(degree=2, gamma=1, coef0=1)');
  mercer('compile', made('s.mercer'), '--plan', 'cascade(spectral, exact)', '-o', made('sonar.mercer'));
  mercer('explain', made('sonar.mercer'), SONAR, '--row', '1', '--report', made('explain.html'));
  mercer('explain', made('s.mercer'), SONAR, '--row', '1', '--attribute', '--background', SONAR, '--background-rows', '20', '--report', made('attribute.html'));
  const lines = readFileSync(SONAR, 'utf8').trim().split('\n');
  writeFileSync(made('first.csv'), lines.slice(0, 151).join('\n'));
  writeFileSync(made('later.csv'), [lines[0], ...lines.slice(151)].join('\n'));
  mercer('train', made('first.csv'), '-o', made('first.mercer'), '--kernel', 'polynomial(degree=2, gamma=1, coef0=1)');
  updated = JSON.parse(mercer('train', made('later.csv'), '--from', made('first.mercer'), '--data', made('first.csv'), '--compare', '-o', made('updated.mercer'), '--report', made('update.html'), '--json'));
  mercer('compress', made('s.mercer'), '--size', '20', '--sample', SONAR, '-o', made('small.mercer'), '--report', made('compress.html'));
});

after(closeAll);

const drawn = async (page, count) => {
  assert.equal(await page.locator('script[data-drawing]').count(), 0, 'all data became drawings');
  assert.ok(await page.locator('figure svg').count() >= count);
};

test('every report is accessible, in light, dark and on a phone, and asks nobody', async () => {
  for (const name of ['demo', 'tune', 'explain', 'explain-digits', 'attribute', 'compress', 'update']) {
    for (const [look, options, width] of LOOKS) {
      const { page, end } = await visit(report(name), options);
      await drawn(page, 1);
      await checkView(page, `report-${look}-${name}`, width);
      await end();
    }
  }
});

test('the demo shows easy and hard digits, each with its steps and its cost', async () => {
  const { page, end } = await visit(report('demo'));
  const examples = page.locator('.example');
  assert.equal(await examples.count(), 12);
  for (const kind of ['Easy', 'Hard']) assert.ok(await page.locator('h3', { hasText: new RegExp(`^${kind}: the answer is \\d$`) }).count() >= 6, kind);
  // Pictures have ink, and are not all the same.
  const pictures = await examples.locator('.about svg').evaluateAll((all) => all.map((picture) => picture.querySelectorAll('rect[fill-opacity]').length));
  assert.ok(pictures.every((dark) => dark > 10 && dark < 60) && new Set(pictures).size > 3, pictures.join());
  // Ten classes: estimates are dashed, proofs solid; an easy digit costs less than exact, a hard one may cost more.
  const ten = page.locator('.examples').first();
  assert.equal(await ten.locator('line.estimate').count(), 4, 'each of the easy digits has an estimate');
  const hard = page.locator('.examples').nth(1);
  assert.ok(await hard.locator('line.proof').count() >= 2, 'hard digits are proved');
  const cost = async (part) => (await part.locator('.about p:last-child').allInnerTexts()).map((text) => Number(/(\d+) %/.exec(text)[1]));
  assert.ok(Math.max(...await cost(ten)) < Math.min(...await cost(hard)));
  // The proof of two classes closes: no range is wider than the one before.
  const proof = page.locator('.examples').nth(2).locator('.example').first();
  const lines = await proof.locator('line.proof').evaluateAll((all) => all.map((line) => Number(line.getAttribute('x2')) - Number(line.getAttribute('x1'))));
  assert.ok(lines.length > 3 && lines.every((length, at) => at === 0 || length <= lines[at - 1] + 2.01), lines.join());
  const slider = proof.locator('input[type=range]');
  const steps = Number(await slider.getAttribute('max'));
  assert.equal(steps, lines.length);
  await slider.focus();
  await page.keyboard.press('Home');
  await proof.getByText(`Step 1 of ${steps}, stage anytime(chunk=4): proved between`).waitFor();
  assert.equal(await proof.locator('line.proof[opacity="0.13"]').count(), steps - 1);
  // LIBSVM's labels: none differs.
  const row = page.locator('tr', { hasText: "LIBSVM's model, imported" });
  assert.deepEqual((await row.locator('td').allInnerTexts()).slice(1), ['597', '0']);
  assert.ok(await page.getByRole('img', { name: 'Cost against difficulty' }).locator('circle').count() > 100);
  const fifths = await page.getByRole('img', { name: 'Mean cost by margin' }).locator('rect').evaluateAll((all) => all.map((bar) => Number(bar.getAttribute('width'))));
  assert.equal(fifths.length, 5);
  assert.ok(fifths[0] > fifths[4], 'the hardest fifth costs more than the easiest');
  await end();
});

test('the path of one query: what the command prints is what the page shows', async () => {
  const told = JSON.parse(mercer('explain', made('sonar.mercer'), SONAR, '--row', '1', '--json'));
  const { page, end } = await visit(report('explain'));
  const last = told.steps.length;
  assert.equal(await page.title(), `Row 1 of ${made('sonar.mercer')}: label ${told.label}`);
  assert.equal(await page.locator('line.proof').count(), last);
  assert.equal(await page.locator('line.settled').count(), 1);
  const changes = told.steps.filter(({ low, high }, at) => at > 0 && (low + high > 0) !== (told.steps[at - 1].low + told.steps[at - 1].high > 0)).length;
  assert.equal(await page.locator('path.change').count(), changes);
  const table = await page.locator('table').last().locator('tr').evaluateAll((rows) => rows.slice(1).map((row) => [...row.cells].map((cell) => cell.textContent)));
  assert.equal(table.length, last);
  table.forEach(([, stage, kind, low, high, cost], at) => {
    assert.deepEqual([stage, kind, Number(cost)], ['spectral', 'proved', told.steps[at].cost]);
    assert.ok(Math.abs(low - told.steps[at].low) < 1e-6 && Math.abs(high - told.steps[at].high) < 1e-6);
  });
  const costs = page.getByRole('img', { name: /^cost so far/ });
  await page.locator('input[type=range]').fill('1');
  assert.match(numbers(await costs.textContent()), new RegExp(`so far${told.steps[0].cost}, .*exact${told.exact_cost}$`));
  await page.locator('input[type=range]').fill(String(last));
  assert.match(numbers(await costs.textContent()), new RegExp(`so far${told.cost}, `));
  await end();
});

test('a picture is shown where the row is one, and an estimate is called one', async () => {
  const told = JSON.parse(mercer('explain', made('estimated.mercer'), QUERIES, '--row', '1', '--json'));
  const { page, end } = await visit(report('explain-digits'));
  assert.ok(await page.getByRole('img', { name: 'The row as a picture' }).locator('rect[fill-opacity]').count() > 10);
  assert.equal(await page.locator('line.estimate').count(), told.steps.filter((step) => step.is_estimate).length);
  assert.match(await page.locator('main').innerText(), /stage student\(24\): estimated between/);
  await end();
});

test('prediction sets, contributions and sizes are drawn from their numbers', async () => {
  for (const [name, label, marks] of [['tune', 'What a coverage takes', 'polyline'], ['attribute', /^row 1, /, 'rect'], ['compress', /size and error/, 'polyline']]) {
    const { page, end } = await visit(report(name));
    const drawing = page.getByRole('img', { name: label });
    assert.ok(await drawing.locator(marks).count() > 0, name);
    assert.ok(!/NaN|undefined|Infinity/.test(await page.locator('main').innerHTML()), name);
    await end();
  }
  // A longer bar is a larger contribution.
  const { page, end } = await visit(report('attribute'));
  const drawing = page.getByRole('img', { name: /^row 1, / });
  const lengths = await drawing.locator('rect').evaluateAll((all) => all.map((bar) => Number(bar.getAttribute('width'))));
  const values = (await page.locator('td:nth-child(3)').allInnerTexts()).map((text) => Math.abs(Number(text)));
  const most = lengths[0] / values[0];
  lengths.slice(0, 20).forEach((length, at) => assert.ok(Math.abs(length - most * values[at]) < 0.5, `bar ${at}: ${length} for ${values[at]}`));
  await end();
});

test('the report of an update draws the supports that stayed, came and left, and both trainings', async () => {
  const { page, end } = await visit(report('update'));
  const told = updated.update ?? updated;
  const bars = (name) => page.getByRole('img', { name });
  const known = ['stayed', 'came', 'left'].map((name) => told[`supports_${name}`]);
  assert.ok(known[0] > 0 && known[1] > 0, known.join());
  const texts = await bars('Supports').locator('text').allTextContents();
  ['stayed', 'came', 'left'].forEach((name, at) => assert.equal(texts[texts.indexOf(name) + 1], String(known[at])));
  // Lengths are in proportion; what left points the other way.
  const rects = await bars('Supports').locator('rect').evaluateAll((all) => all.map((rect) => ['x', 'width'].map((name) => Number(rect.getAttribute(name)))));
  const most = Math.max(...known);
  const longest = Math.max(...rects.map(([, width]) => width));
  rects.forEach(([, width], at) => assert.ok(Math.abs(width / longest - known[at] / most) < 1e-3, `bar ${at}`));
  assert.ok(known[2] === 0 || rects[2][0] < rects[0][0]);
  assert.equal(await bars('Iterations').locator('rect').count(), 2);
  assert.ok((await bars('Iterations').locator('text').allTextContents()).includes(String(told.from_nothing.iterations)));
  await end();
});

test('data cannot become markup', async () => {
  writeFileSync(made('odd.csv'), readFileSync(SONAR, 'utf8').replace('band0', '<img src=x onerror=alert(1)>'));
  mercer('train', made('odd.csv'), '-o', made('odd.mercer'), '--kernel', 'linear');
  mercer('explain', made('odd.mercer'), made('odd.csv'), '--attribute', '--background', made('odd.csv'), '--report', made('odd.html'));
  const { page, end } = await visit(report('odd'));
  assert.equal(await page.locator('img').count(), 0);
  assert.match(await page.locator('main').innerText(), /<img src=x onerror=alert\(1\)>/);
  await end();
});
