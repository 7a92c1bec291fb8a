// `mercer play` in a real browser: training by clicks, and what is shown then. `cargo xtask test --only page` runs it.

import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { checkBytes, checkView, closeAll, coloursOf, DATASETS, LOOKS, made, mercer, openBrowser, shows, start, swipe, tabTo, TOUCH, visit } from '../../../mercer-server/page/tests/support.mjs';

const HABERMAN = path.join(DATASETS, 'haberman/haberman.csv');

before(openBrowser);
after(closeAll);

/** A page of its own: trainings of one test are none of another. */
const play = async (options, ...words) => visit(await start('play', ['--no-browser', ...words]), options);
const counted = (page) => page.locator('#trained').innerText();
/** Waits until the sentence on support vectors fits. */
const trained = (page, pattern) => page.locator('#trained', { hasText: pattern }).waitFor({ timeout: 20000 });

test('a click adds a point and trains from the machine before', async () => {
  const { page, end } = await play();
  await trained(page, /\d+ of 400 points are support vectors, \d+ of them bounded/);
  assert.equal(await page.getByRole('link', { name: 'Train' }).getAttribute('aria-current'), 'page');
  const plane = page.locator('#plane');
  await plane.click({ position: { x: 60, y: 60 } });
  await trained(page, /of 401 points/);
  await page.locator('#facts', { hasText: 'from the machine before' }).waitFor();
  // How long the change took until it was drawn; an answer comes early where a training takes longer.
  const drawn = page.locator('dt', { hasText: /until it is drawn/ }).locator('xpath=following-sibling::dd[1]');
  assert.match(await drawn.innerText(), /^\d+ ms$/);
  // Shift takes the nearest point away, Undo brings it back.
  await plane.click({ position: { x: 60, y: 60 }, modifiers: ['Shift'] });
  await trained(page, /of 400 points/);
  await page.getByRole('button', { name: 'Undo' }).click();
  await trained(page, /of 401 points/);
  await page.getByLabel('erase').check();
  await plane.click({ position: { x: 60, y: 60 } });
  await trained(page, /of 400 points/);
  // By keyboard: the cursor starts in the middle.
  await page.getByLabel('class A').check();
  await plane.focus();
  for (const key of ['ArrowUp', 'ArrowLeft', ' ']) await page.keyboard.press(key);
  await trained(page, /of 401 points/);
  await page.keyboard.press('Delete');
  await trained(page, /of 400 points/);
  await end();
});

test('a finger adds and erases points, moves sliders and chooses a row', async () => {
  const { page, end } = await play(TOUCH);
  await trained(page, /of 400 points/);
  const plane = page.locator('#plane');
  await plane.tap({ position: { x: 40, y: 40 } });
  await trained(page, /of 401 points/);
  await page.getByLabel('erase').tap();
  await plane.tap({ position: { x: 40, y: 40 } });
  await trained(page, /of 400 points/);
  await page.getByLabel(/^Kernel/).selectOption('laplacian');
  await page.locator('#facts', { hasText: 'laplacian(gamma=1)' }).waitFor();
  await swipe(page, page.getByLabel('gamma', { exact: true }), [0.44, 0.5], [0.5, 0.5], [0.7, 0.5], [0.85, 0.5]);
  await page.locator('#facts', { hasText: /laplacian\(gamma=[\d.]{2,}\)/ }).waitFor();
  await page.locator('#plane-costs').tap({ position: { x: 40, y: 40 } });
  await shows(page, /The row is x .*, y /);
  await end();
});

test('Train is used by keyboard alone', async () => {
  const { page, end } = await play();
  await trained(page, /of 400 points/);
  await tabTo(page, page.locator('#plane'));
  await page.keyboard.press(' ');
  await trained(page, /of 401 points/);
  await tabTo(page, page.getByRole('button', { name: 'Undo' }));
  await page.keyboard.press('Enter');
  await trained(page, /of 400 points/);
  await tabTo(page, page.getByLabel(/^Kernel/));
  await page.keyboard.press('ArrowDown');
  await page.locator('#facts', { hasText: 'laplacian' }).waitFor();
  await tabTo(page, page.getByLabel('C', { exact: true }));
  await page.keyboard.press('ArrowRight');
  await tabTo(page, page.getByLabel('Show a machine with fewer vectors'));
  await page.keyboard.press(' ');
  await page.locator('#compressed').waitFor();
  await tabTo(page, page.getByRole('button', { name: 'Save the machine' }));
  await Promise.all([page.waitForEvent('download'), page.keyboard.press('Enter')]);
  await tabTo(page, page.locator('#plane-costs'));
  await page.keyboard.press('ArrowUp');
  await shows(page, /The row is x .*, y /);
  await end();
});

test('a long training is shown early, goes on, and makes room for a change', async () => {
  const { page, end } = await play();
  await trained(page, /of 400 points/);
  // One label of five is wrong, and C wants every point right: this takes many seconds.
  const wrong = await page.evaluate(async () => {
    const ask = async (name, body) => (await fetch(`train/${name}`, { method: 'POST', body: JSON.stringify(body) })).json();
    const { points } = await ask('example', { name: 'crescents', rows: 1000 });
    return points.map(([x, y, label], at) => `${x},${y},${at % 5 ? label : 1 - label}`);
  });
  writeFileSync(made('wrong.csv'), `x,y,kind\n${wrong.join('\n')}\n`);
  await page.locator('input[type=file]').setInputFiles(made('wrong.csv'));
  await trained(page, /of 1.000 points/);
  await page.getByLabel(/^Kernel/).selectOption('polynomial');
  for (const name of ['degree', 'C']) {
    await page.getByLabel(name, { exact: true }).focus();
    await page.keyboard.press('End');
  }
  await trained(page, /its training goes on/);
  const steps = async () => Number(/([\d\u202f]+) steps/.exec(await page.locator('#facts').innerText())[1].replaceAll('\u202f', ''));
  const early = await steps();
  await page.waitForFunction((old) => Number(/([\d\u202f]+) steps/.exec(document.querySelector('#facts').textContent)[1].replaceAll('\u202f', '')) > old, early);
  await page.getByLabel('C', { exact: true }).focus();
  await page.keyboard.press('Home');
  await page.waitForFunction(() => !document.querySelector('#trained').textContent.includes('goes on'));
  await page.locator('#facts', { hasText: 'degree=8' }).waitFor();
  await end(/ERR_ABORTED/);
});

test('points from nothing: one class is not enough, three classes have borders', async () => {
  const { page, end } = await play();
  await trained(page, /of 400 points/);
  await page.getByRole('button', { name: 'Clear' }).click();
  await shows(page, 'There is no point yet: click into the plane.');
  const plane = page.locator('#plane');
  for (const position of [{ x: 100, y: 100 }, { x: 140, y: 120 }, { x: 110, y: 160 }]) await plane.click({ position });
  await shows(page, 'All points are of one class: choose another class and click.');
  await page.getByLabel('class B').check();
  for (const position of [{ x: 300, y: 100 }, { x: 340, y: 120 }]) await plane.click({ position });
  await trained(page, /of 5 points/);
  await page.getByRole('button', { name: 'One more class' }).click();
  for (const position of [{ x: 200, y: 350 }, { x: 240, y: 370 }]) await plane.click({ position });
  await trained(page, /of 7 points/);
  const colours = await plane.evaluate((canvas, places) => places.map(([x, y]) => {
    const unit = canvas.width / canvas.getBoundingClientRect().width;
    return canvas.getContext('2d').getImageData(x * unit, y * unit, 1, 1).data.join();
  }), [[120, 128], [320, 130], [220, 380]]);
  assert.equal(new Set(colours).size, 3, 'each class has a region of its own');
  await page.getByRole('link', { name: 'Card' }).click();
  await shows(page, 'one of 3 classes');
  await end();
});

test('kernel, C and gamma change the machine; plan, stages and cost are beside it', async () => {
  const { page, end } = await play();
  await trained(page, /of 400 points/);
  const first = await counted(page);
  await page.getByLabel('C', { exact: true }).focus();
  await page.keyboard.press('End');
  await page.waitForFunction((old) => document.querySelector('#trained').textContent !== old, first);
  const wide = Number(/^\d+/.exec(await counted(page))[0]);
  assert.ok(wide < Number(/^\d+/.exec(first)[0]), 'a large C has fewer support vectors here');
  await page.getByLabel('gamma', { exact: true }).focus();
  await page.keyboard.press('End');
  await page.locator('#facts', { hasText: 'rbf(gamma=316)' }).waitFor();
  await page.getByLabel(/^Kernel/).selectOption('polynomial');
  await page.getByLabel('gamma', { exact: true }).focus();
  await page.keyboard.press('Home');
  await shows(page, 'cascade(monomials, exact)');
  await page.getByLabel('degree', { exact: true }).focus();
  await page.keyboard.press('ArrowLeft');
  await page.locator('#facts', { hasText: 'polynomial(degree=2, gamma=0.01, coef0=1)' }).waitFor();
  await page.getByLabel(/^Kernel/).selectOption('linear');
  await page.locator('#facts', { hasText: 'linear' }).waitFor();
  await page.getByLabel(/^Kernel/).selectOption('rbf');
  await page.getByLabel('gamma', { exact: true }).focus();
  for (let press = 0; press < 40; press += 1) await page.keyboard.press('ArrowRight');
  for (const [plan, text] of [['cascade(compressed(k=10), exact)', /compressed/], ['cascade(anytime(chunk=2), exact)', /anytime/], ['cascade(low_precision, exact)', /low_precision/], ['exact', /Plan: exact/]]) {
    await page.getByLabel('Plan of answers').selectOption(plan);
    await page.locator('#plan', { hasText: text }).waitFor();
  }
  // A small C has many support vectors, and so something to save.
  await page.getByLabel('C', { exact: true }).focus();
  await page.keyboard.press('Home');
  await page.getByLabel('Plan of answers').selectOption('auto');
  await page.locator('#plan', { hasText: /Plan: cascade\(anytime\(chunk=2\)/ }).waitFor();
  await page.waitForTimeout(300);
  assert.ok(await coloursOf(page.locator('#plane-costs')) >= 2, 'easy and hard queries');
  await shows(page, /On average an answer costs .* multiply-adds/);
  await end();
});

test('a smaller machine: its border, its vectors and the proved distance', async () => {
  const { page, end } = await play();
  await trained(page, /of 400 points/);
  const red = () => page.locator('#plane').evaluate((canvas) => {
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    return Array.from({ length: data.length / 4 }, (_, at) => data[4 * at] > 170 && data[4 * at + 1] < 30 && data[4 * at + 2] < 30).filter(Boolean).length;
  });
  assert.equal(await red(), 0);
  await page.getByLabel('Show a machine with fewer vectors').check();
  const said = page.locator('#compressed', { hasText: /vectors compressed to 10\. The distance of the two machines is proved: at most / });
  await said.waitFor();
  assert.ok(await red() > 100);
  const distance = async () => Number(/at most ([\d.e−]+)/.exec(await page.locator('#compressed').innerText())[1].replace('−', '-'));
  const ten = await distance();
  await page.getByLabel('Vectors', { exact: true }).focus();
  await page.keyboard.press('Home');
  await page.locator('#compressed', { hasText: 'compressed to 1.' }).waitFor();
  assert.ok(await distance() > ten, 'fewer vectors are further away');
  await page.getByLabel('Show a machine with fewer vectors').uncheck();
  await page.locator('#compressed').waitFor({ state: 'detached' });
  assert.equal(await red(), 0);
  await end();
});

test('machines are saved, and answer as the page says', async () => {
  const { page, end } = await play();
  await trained(page, /of 400 points/);
  const saved = async (name, file) => {
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name }).click()]);
    await download.saveAs(made(file));
    return made(file);
  };
  const file = await saved('Save the machine', 'play.mercer');
  const supports = Number(/^\d+/.exec(await counted(page))[0]);
  assert.equal(JSON.parse(mercer('inspect', file, '--json')).supports, supports);
  writeFileSync(made('row.csv'), 'x,y\n-1,0.8\n2,-0.3\n');
  const labels = mercer('predict', file, made('row.csv'), '--format', 'jsonl', '--quiet').trim().split('\n').map((line) => JSON.parse(line).label);
  assert.deepEqual(labels, ['A', 'B']);
  await page.getByLabel('Show a machine with fewer vectors').check();
  await page.locator('#compressed', { hasText: 'compressed to 10' }).waitFor();
  assert.equal(JSON.parse(mercer('inspect', await saved('Save the small one', 'small.mercer'), '--json')).supports, 10);
  await end();
});

test('a table of one\'s own, by two columns or components', async () => {
  const { page, end } = await play({}, HABERMAN);
  await trained(page, /of 306 points/);
  await shows(page, /haberman.csv: 306 rows\. To the right: age/);
  await page.getByLabel('Upwards').selectOption('nodes');
  await shows(page, /Upwards: nodes, from/);
  await trained(page, /of 306 points/);
  await page.getByLabel('To the right').selectOption('component 1');
  await shows(page, /To the right: component 1/);
  await page.getByLabel(/^Example/).selectOption('three clouds');
  await trained(page, /of 400 points/);
  // The same table again, dropped into the page; and one that is too long.
  await page.locator('input[type=file]').setInputFiles(HABERMAN);
  await shows(page, /haberman.csv: 306 rows/);
  await trained(page, /of 306 points/);
  writeFileSync(made('long.csv'), `a,b,y\n${'1,2,x\n'.repeat(20001)}`);
  await page.locator('input[type=file]').setInputFiles(made('long.csv'));
  await page.getByRole('alert').filter({ hasText: /long.csv.*more than 20000 rows/ }).waitFor();
  await end(/400/);
});

test('points that were on their way when others were asked for do not come back', async () => {
  const { page, end } = await play();
  await trained(page, /of 400 points/);
  // The new points are late; a click on the old ones in between is no change of the new ones.
  await page.route('**/train/example', async (route) => {
    const reply = await route.fetch();
    await new Promise((resolve) => { setTimeout(resolve, 600); });
    await route.fulfill({ response: reply });
  });
  await page.getByLabel(/^Example/).selectOption('three clouds');
  await shows(page, 'Points are on their way');
  await page.locator('#plane').click({ position: { x: 60, y: 60 } });
  await trained(page, /of 400 points/);
  await shows(page, /Example three clouds: 400 points/);
  await page.locator('#plane').click({ position: { x: 60, y: 60 } });
  await trained(page, /of 401 points/);
  await end();
});

test('points that a training did not take are sent again', async () => {
  const { page, end } = await play();
  await trained(page, /of 400 points/);
  const sent = [];
  await page.route('**/train/fit', async (route) => {
    sent.push(route.request().postDataJSON().points?.length);
    await (sent.length === 1 ? route.abort() : route.continue());
  });
  await page.locator('#plane').click({ position: { x: 60, y: 60 } });
  await page.getByRole('alert').filter({ hasText: 'the server cannot be reached' }).waitFor();
  await page.getByLabel('C', { exact: true }).focus();
  await page.keyboard.press('ArrowRight');
  await trained(page, /of 401 points/);
  await page.locator('#problem').waitFor({ state: 'hidden' });
  assert.deepEqual(sent, [401, 401]);
  await end(/ERR_FAILED/);
});

test('another view waits for the training that is under way', async () => {
  const { page, end } = await play();
  await trained(page, /of 400 points/);
  await page.route('**/train/fit', async (route) => {
    await new Promise((resolve) => { setTimeout(resolve, 600); });
    await route.continue();
  });
  await page.getByLabel(/^Kernel/).selectOption('laplacian');
  await page.getByRole('link', { name: 'Card' }).click();
  await page.locator('dd', { hasText: 'laplacian(gamma=1)' }).waitFor();
  await shows(page, 'What it promises');
  await end();
});

test('a table of 20,000 rows is trained', async () => {
  const lines = Array.from({ length: 20000 }, (_, at) => {
    const [class_, angle] = [at % 2, (at * 2654435761 % 4294967296) / 4294967296];
    const radius = 1 + class_ + 0.6 * ((at * 40503 % 65536) / 65536);
    return `${radius * Math.cos(6.283 * angle)},${radius * Math.sin(6.283 * angle)},${'ab'[class_]}`;
  });
  writeFileSync(made('rings.csv'), `u,v,ring\n${lines.join('\n')}\n`);
  const { page, end } = await play({}, made('rings.csv'), '--label', 'ring');
  await page.locator('#trained', { hasText: /of 20.000 points are support vectors/ }).waitFor({ timeout: 60000 });
  // To the end, and not until the limit of time.
  await page.locator('#facts', { hasText: 'steps' }).waitFor();
  assert.ok(!(await page.locator('#facts').innerText()).includes('stopped early'));
  await end();
});

test('the other views show the machine that was trained last', async () => {
  const { page, end } = await play();
  await trained(page, /of 400 points/);
  await page.getByLabel(/^Kernel/).selectOption('laplacian');
  await page.locator('#facts', { hasText: 'laplacian' }).waitFor();
  await page.locator('#plane-costs').click({ position: { x: 30, y: 30 } });
  await shows(page, /The row is x .*, y /);
  await page.getByRole('link', { name: 'Card' }).click();
  await shows(page, /laplacian\(gamma=1\)/);
  assert.doesNotMatch(await page.locator('main').innerText(), /Version\s+\d+ of/);
  await page.getByRole('link', { name: 'Watch' }).click();
  await shows(page, /Of \d+ support vectors these weigh most/);
  await page.getByRole('link', { name: 'Where it is hard' }).click();
  await shows(page, /2.304 answers/);
  await page.getByRole('link', { name: 'Play' }).click();
  await page.locator('#answer').waitFor();
  await page.getByRole('link', { name: 'Live' }).click();
  // Another version of the model answers now: what all versions answered is one sum.
  const sums = await page.locator('.tile', { hasText: 'Queries answered' }).locator('small').innerText();
  const names = [...sums.matchAll(/[a-z]+/g)].map(([name]) => name);
  assert.ok(names.length > 0 && new Set(names).size === names.length, sums);
  // Back at Train the settings are as they were.
  await page.getByRole('link', { name: 'Train' }).click();
  await trained(page, /of 400 points/);
  assert.equal(await page.getByLabel(/^Kernel/).inputValue(), 'laplacian');
  await end();
});

test('the browser is opened, if there is one', async () => {
  mkdirSync(made('bin'));
  writeFileSync(made('bin/xdg-open'), `#!/bin/sh\nprintf %s "$1" > '${made('opened')}'\n`);
  chmodSync(made('bin/xdg-open'), 0o755);
  const address = await start('play', [], { env: { PATH: `${made('bin')}:${process.env.PATH}` } });
  for (let look = 0; look < 100; look += 1) {
    try {
      if (readFileSync(made('opened'), 'utf8') === address) return;
    } catch { /* not yet */ }
    await new Promise((resolve) => { setTimeout(resolve, 100); });
  }
  assert.fail('xdg-open was not called with the address');
});

test('Train is accessible, in light, dark and on a phone; all files together are small', async () => {
  for (const [name, options, width] of LOOKS) {
    const { page, end } = await play(options);
    await trained(page, /of 400 points/);
    await page.getByLabel('Show a machine with fewer vectors').check();
    await page.locator('#compressed').waitFor();
    await page.waitForTimeout(300);
    await checkView(page, `${name}-train`, width);
    await end();
  }
  await checkBytes(await start('play', ['--no-browser']));
});
